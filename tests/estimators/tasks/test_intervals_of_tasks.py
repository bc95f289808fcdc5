"""Intervals of tasks: they cover, noisy and small tasks have wider ones, and a file keeps them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import rslm
from rslm import MultiTaskClassifier, MultiTaskRegressor, ReducedRankRegressor
from rslm.estimators.tasks.intervals import HeldOut, Intervals, weight_of_all
from rslm.estimators.tasks.leverage import Leverage, Ridges
from rslm.measurements import Tasks

T, D = 20, 6
NOISE = np.where(np.arange(T) % 2, 1.0, 0.2)  # of the tasks


def made(rows=30, new=100, seed=0):
    """X, y and tasks to learn from, and new ones: heavy tails, and tasks whose noises differ."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal(D) + rng.standard_normal((T, 2)) @ rng.standard_normal((2, D))

    def part(n):
        tasks = np.repeat(np.arange(T), n)
        X = rng.standard_normal((len(tasks), D))
        return X, np.einsum("nd,nd->n", X, W[tasks]) + NOISE[tasks] * rng.standard_t(3, len(tasks)), tasks

    return part(rows), part(new)


def covered(model, rows, coverage=0.9):
    X, y, tasks = rows
    lower, upper = model.predict_interval(X, tasks, coverage)
    return (lower <= y) & (y <= upper)


@pytest.fixture(scope="module")
def model():
    return MultiTaskRegressor(random_state=0).fit(*made()[0])


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_new_rows_are_covered(model, coverage):
    # 600 held-out rows: the coverage of a quantile of their scores has a deviation of at most 0.02; three of them
    assert covered(model, made()[1], coverage).mean() == pytest.approx(coverage, abs=0.06)


def test_noisy_tasks_have_wider_intervals(model):
    (_, _, _), (X, y, tasks) = made()
    lower, upper = model.predict_interval(X, tasks)
    widths = [np.mean((upper - lower)[NOISE[tasks] == noise]) for noise in (0.2, 1.0)]
    assert widths[1] > 3 * widths[0]  # the noises differ by a factor of 5
    each = np.bincount(tasks, covered(model, (X, y, tasks))) / np.bincount(tasks)
    assert each.min() > 0.75  # one width for all rows covers three quarters of the rows of noisy tasks or fewer


def test_middle_and_nesting(model):
    X, _, tasks = made()[1]
    lower, upper = model.predict_interval(X, tasks, coverage=0.9)
    np.testing.assert_allclose(0.5 * (lower + upper), model.predict(X, tasks), atol=1e-12)  # rounding
    inner_lower, inner_upper = model.predict_interval(X, tasks, coverage=0.5)
    assert (lower < inner_lower).all()
    assert (inner_upper < upper).all()


def test_far_rows_and_small_tasks_have_wider_intervals():
    (X, y, tasks), _ = made()
    keep = (tasks != 1) | (np.cumsum(tasks == 1) <= 4)  # four rows of task 1; task 3 has the same noise
    model = MultiTaskRegressor(random_state=0).fit(X[keep], y[keep], tasks[keep])
    assert model.task_part_ != "none"
    leverages = model._leverages(X, np.arange(len(X)), tasks)
    assert leverages[tasks == 1].mean() > 2 * leverages[tasks == 3].mean()
    row = np.ones((1, D))
    near, far = (np.diff(model.predict_interval(size * row, [3]), axis=0).item() for size in (1.0, 30.0))
    assert far > 1.2 * near


def test_units_and_shifts_of_the_targets(model):
    (X, y, tasks), (new, _, of_new) = made()
    other = MultiTaskRegressor(random_state=0).fit(X, 1e3 * y + 1e5, tasks)
    found, expected = other.predict_interval(new, of_new), model.predict_interval(new, of_new)
    # the search ends at a relative accuracy of 1e-3, so that rounding errors may move it by some of that
    np.testing.assert_allclose((np.array(found) - 1e5) / 1e3, expected, atol=1e-3)


def test_the_number_of_threads_changes_no_bit(model):
    train, (new, _, of_new) = made()
    other = MultiTaskRegressor(random_state=0, n_threads=1).fit(*train)
    np.testing.assert_array_equal(other.predict_interval(new, of_new), model.predict_interval(new, of_new))


def test_file(model, tmp_path):
    X, _, tasks = made()[1]
    model.save(tmp_path / "m.rslm")
    found = rslm.load(tmp_path / "m.rslm").predict_interval(X, tasks, 0.8)
    np.testing.assert_array_equal(found, model.predict_interval(X, tasks, 0.8))


def test_features_that_were_scaled_before(model):
    (X, y, tasks), (new, _, of_new) = made()
    mean, size = np.arange(D), np.logspace(-1, 1, D)
    other = MultiTaskRegressor(random_state=0).fit(X, y, tasks).unscaled(mean, size)
    expected = model.predict_interval(new, of_new)
    np.testing.assert_allclose(other.predict_interval(mean + size * new, of_new), expected, atol=1e-9)  # rounding


def test_given_settings_need_held_out_rows():
    train, test = made()
    plain = MultiTaskRegressor(2, 1.0, effects=None, random_state=0).fit(*train)
    with pytest.raises(ValueError, match=r"rank, C and effects were given.*calibrate.*at least 19 for coverage=0\.95"):
        plain.predict_interval(*test[::2], coverage=0.95)
    half = np.arange(len(test[1])) % 2 == 0
    assert plain.calibrate(*(part[half] for part in test)) is plain
    # 1,000 rows calibrate and 1,000 test: two deviations of 0.0095 each, and three of their difference
    assert covered(plain, [part[~half] for part in test]).mean() == pytest.approx(0.9, abs=0.04)
    few = plain.calibrate(*(part[:5] for part in test))
    with pytest.raises(ValueError, match=r"needs at least 9 held-out observations; there are 5"):
        few.predict_interval(*test[::2])
    few.fit(*train)  # a new fit forgets them
    with pytest.raises(ValueError, match="calibrate"):
        few.predict_interval(*test[::2])


def test_refused(model):
    X, y, tasks = made()[1]
    for coverage in (0.0, 1.0, 90, "much", True):
        with pytest.raises(ValueError, match="coverage must be a number between 0 and 1"):
            model.predict_interval(X, tasks, coverage)
    with pytest.raises((KeyError, ValueError), match="99"):
        model.predict_interval(X[:1], [99])
    with pytest.raises(ValueError, match="there are no targets"):
        ReducedRankRegressor(1, 1.0).fit(X, y).calibrate(X, np.full(len(y), np.nan))
    assert not hasattr(MultiTaskClassifier, "predict_interval")


def test_without_time_for_held_out_rows():
    (X, y, tasks), _ = made()
    model = MultiTaskRegressor(random_state=0, max_time=1e-9).fit(X, y, tasks)
    with pytest.raises(ValueError, match=r"nothing to hold out, or no time"):
        model.predict_interval(X, tasks)


@pytest.mark.parametrize("loss", ["huber", "absolute"])
def test_other_losses(loss):
    train, test = made(rows=15)
    model = MultiTaskRegressor(2, loss=loss, effects=(1.0, 1.0), random_state=0).fit(*train)
    # 300 held-out rows: a deviation of 0.017; three of them
    assert covered(model, test).mean() == pytest.approx(0.9, abs=0.055)


# ---- many targets of the same rows -----------------------------------------------------------------------------------


def targets(rows, seed=0):
    """Ten targets in different units."""
    rng = np.random.default_rng(seed)
    W, unit = rng.standard_normal((10, 2)) @ rng.standard_normal((2, D)), np.logspace(-2, 2, 10)
    X = rng.standard_normal((rows, D))
    return X, unit * (X @ W.T + 0.3 * rng.standard_normal((rows, 10)))


def test_targets_in_different_units():
    X, Y = targets(400)
    train = Y[:100].copy()
    train[::3, 2] = np.nan
    model = ReducedRankRegressor(random_state=0).fit(X[:100], train)
    lower, upper = model.predict_interval(X[100:], coverage=0.8)
    inside = (lower <= Y[100:]) & (Y[100:] <= upper)
    # about 970 held-out errors, of 100 rows: a deviation of 0.04 if those of a row were all alike; two of them
    assert inside.mean() == pytest.approx(0.8, abs=0.08)
    assert (np.abs(inside.mean(axis=0) - 0.8) < 0.15).all()
    with pytest.raises(ValueError, match=r"y must have shape \(400, 10\)"):
        model.calibrate(X, Y[:, 0])


def test_one_target_has_flat_intervals():
    X, Y = targets(100)
    lower, upper = ReducedRankRegressor(random_state=0).fit(X, Y[:, 3]).predict_interval(X)
    assert lower.shape == upper.shape == (100,)


def test_factorised_features_have_the_same_leverages():
    X, Y = targets(60)
    X += 3.0
    given = {"rank": 2, "C": 0.1, "effects": None, "tol": 1e-10, "random_state": 0}
    short, long = ReducedRankRegressor(**given).fit(X, Y), ReducedRankRegressor(**given).fit(sparse.csr_array(X), Y)
    rows, tasks = np.arange(60), np.arange(60) % 10
    expected = long._leverages(X, rows, tasks)
    assert expected.max() > 0.05
    # the intercepts of `long` have ridges of 1e-6 rows, those of `short` have none; both are converged to 1e-10
    np.testing.assert_allclose(short._leverages(X, rows, tasks), expected, rtol=1e-5)
    new, Y_new = targets(300, seed=0)
    lower, upper = short.calibrate(new[100:] + 3.0, Y_new[100:]).predict_interval(sparse.csr_array(X))
    assert (lower < upper).all()


# ---- the parts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("intercept", "weighted"), [(None, False), (0.0, False), (2.5, True)])
def test_leverage_is_that_of_a_ridge_regression(intercept, weighted):
    rng = np.random.default_rng(0)
    X, U, weights = 1.0 + rng.standard_normal((40, 5)), rng.standard_normal((5, 3)), rng.uniform(0.5, 2.0, 40)
    weights = weights if weighted else np.ones(40)
    # two tasks of the same rows: then their covariance is exactly that of all tasks
    data = Tasks(np.vstack([X, X]), np.zeros(80), np.repeat([0, 1], 40), weights=np.tile(weights, 2))
    found = Leverage.of(data, U, Ridges(0.7, intercept), 1).at(X @ U, np.arange(40), np.arange(40) % 2)
    G = X @ U if intercept is None else np.column_stack([X @ U, np.ones(40)])
    ridges = np.diag([0.7] * 3 + ([] if intercept is None else [intercept]))
    expected = np.einsum("pk,pk->p", G, np.linalg.solve((G.T * weights) @ G + ridges, G.T).T)
    np.testing.assert_allclose(found, expected, rtol=1e-5)  # an intercept without a ridge has one of 1e-6 rows


def test_features_that_are_constant_within_tasks_cost_nothing():
    """A feature such as age says nothing about how a row differs from others of its task."""
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(5), 8)
    X = 10.0 * rng.standard_normal((5, 1))[tasks]
    data = Tasks(X, np.zeros(40), tasks)
    found = Leverage.of(data, np.ones((1, 1)), Ridges(1e-3, 0.0), 1).at(X, np.arange(40), tasks)
    np.testing.assert_allclose(found, 1 / 8, rtol=1e-4)  # as of a mean of 8 rows; the ridges are small, not 0


def test_noise_is_shrunk_by_as_much_as_tasks_differ():
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(30), 10)
    sizes = np.abs(rng.standard_normal(300))
    assert weight_of_all(sizes, tasks, 30) > 20  # chance explains how the means of 10 differ
    assert weight_of_all(sizes * (1.0 + 9.0 * (tasks % 2)), tasks, 30) < 3
    assert weight_of_all(np.ones(4), np.arange(4), 4) == np.inf  # no two of a task
    assert weight_of_all(np.ones(4), np.zeros(4, dtype=int), 1) == np.inf


def test_a_score_has_no_part_in_its_own_noise():
    tasks, errors = np.repeat([0, 1], 3), np.array([1.0, 2.0, 3.0, 10.0, 20.0, 60.0])
    found = Intervals.of(HeldOut(tasks, errors, np.zeros(6)), 3)
    k, mean = weight_of_all(errors, tasks, 3), errors.mean()
    assert np.isfinite(k)
    expected = [e / ((errors[tasks == t].sum() - e + k * mean) / (2 + k)) for t, e in zip(tasks, errors, strict=True)]
    np.testing.assert_allclose(found.calibration.scores, np.sort(expected))
    np.testing.assert_allclose(found.noise, [(6 + k * mean) / (3 + k), (90 + k * mean) / (3 + k), mean])


def test_data_without_noise():
    (X, _, tasks), _ = made()
    y = X @ np.arange(1.0, 1 + D)
    model = MultiTaskRegressor(random_state=0).fit(X, y, tasks)
    lower, upper = model.predict_interval(X, tasks)
    assert np.abs(upper - lower).max() < 1e-3 * np.ptp(y)  # held-out rows are predicted to the accuracy of the search


def test_intervals_of_tables_say_nothing_of_feature_names():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((60, 3)), columns=["a", "b", "c"])
    Y = X.to_numpy() @ rng.standard_normal((3, 2)) + 0.1 * rng.standard_normal((60, 2))
    for model, y in (MultiTaskRegressor(rank=1, C=10.0), Y[:, 0]), (ReducedRankRegressor(rank=1, C=10.0), Y):
        model.fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            lower, upper = model.calibrate(X, y).predict_interval(X)
        assert (lower < upper).all()
        with pytest.raises(ValueError, match="feature names"):
            model.predict_interval(X[["b", "a", "c"]])
