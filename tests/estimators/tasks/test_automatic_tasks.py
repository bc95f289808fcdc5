"""Fits of tasks without a setting: as good as one model for all and as each task alone, in any units, by seed."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import log_loss

import rslm
from rslm import MultiTaskClassifier, MultiTaskRegressor, ReducedRankRegressor
from rslm.estimators.tasks.folds import fold_of_rows
from rslm.losses import Huber

T, D = 20, 8
ALPHAS = np.logspace(-2, 3, 11)


def coefficients(kind, rng):
    if kind == "identical":
        W = np.tile(rng.standard_normal(D), (T, 1))
    elif kind == "unrelated":
        W = rng.standard_normal((T, D))
    else:
        W = rng.standard_normal(D) + 0.5 * rng.standard_normal((T, 3)) @ rng.standard_normal((3, D))
    return W / np.sqrt(D)


def made(kind, rows=12, seed=0):
    """X, y and tasks to learn from, and to test on."""
    rng = np.random.default_rng(seed)
    W, b = coefficients(kind, rng), 2.0 + 0.3 * rng.standard_normal(T)
    parts = []
    for n in (rows, 60):
        tasks, X = np.repeat(np.arange(T), n), rng.standard_normal((T * n, D))
        parts.append((X, np.einsum("nd,nd->n", X, W[tasks]) + b[tasks] + 0.5 * rng.standard_normal(T * n), tasks))
    return parts


def error(model, test):
    X, y, tasks = test
    return np.mean((model.predict(X, tasks=tasks) - y) ** 2)


def of_others(train, test):
    """The test errors of one ridge for all tasks, and of a ridge for every task."""
    (X, y, tasks), (X_test, y_test, tasks_test) = train, test
    pooled = np.mean((RidgeCV(ALPHAS).fit(X, y).predict(X_test) - y_test) ** 2)
    alone = np.empty(len(y_test))
    for t in range(T):
        alone[tasks_test == t] = RidgeCV(ALPHAS).fit(X[tasks == t], y[tasks == t]).predict(X_test[tasks_test == t])
    return pooled, np.mean((alone - y_test) ** 2)


@pytest.fixture(scope="module")
def fitted():
    return {
        kind: MultiTaskRegressor(random_state=0).fit(*made(kind)[0]) for kind in ("identical", "unrelated", "rank 3")
    }


@pytest.mark.parametrize("kind", ["identical", "unrelated", "rank 3"])
def test_never_worse_than_one_model_or_one_for_every_task(fitted, kind):
    train, test = made(kind)
    found = error(fitted[kind], test)
    assert found <= 1.01 * min(of_others(train, test))
    assert found <= 1.01 * min(fitted[kind].held_out_["pooled"] ** 2, fitted[kind].held_out_["by_task"] ** 2) * 1.2


def test_what_is_found(fitted):
    identical, unrelated, related = fitted["identical"], fitted["unrelated"], fitted["rank 3"]
    assert np.ptp(identical.coef_ - identical.common_coef_, axis=0).max() < 0.3
    assert unrelated.task_part_ == "ridge"
    assert related.task_part_ == "low rank"
    assert related.certificate_ is not None
    assert related.rank_ <= 5
    for model in fitted.values():
        path, held_out = model.path_, model.held_out_
        assert set(path) == {"task_part", "rank", "C", "common", "intercepts", "error", "seconds"}
        assert len({len(column) for column in path.values()}) == 1
        assert set(held_out) == {"mean", "pooled", "by_task", "model"}
        assert held_out["model"] <= 1.001 * min(held_out.values())
        at = np.isclose(path["C"], model.C_) & (path["task_part"] == model.task_part_)
        assert np.isclose(path["error"][at], held_out["model"], rtol=1e-12).any()


@pytest.mark.parametrize(("factor", "shift"), [(1e-3, 0.0), (1e3, 0.0), (1.0, 1e4)])
def test_units_of_the_targets(fitted, factor, shift):
    X, y, tasks = made("rank 3")[0]
    other = MultiTaskRegressor(random_state=0).fit(X, factor * y + shift, tasks)
    np.testing.assert_allclose(
        (other.predict(X, tasks) - shift) / factor, fitted["rank 3"].predict(X, tasks), rtol=1e-6, atol=1e-6
    )
    assert pytest.approx(fitted["rank 3"].C_, rel=1e-6) == other.C_
    assert other.held_out_["model"] == pytest.approx(factor * fitted["rank 3"].held_out_["model"], rel=1e-6)


def test_units_of_the_features(fitted):
    (X, y, tasks), _ = made("rank 3")
    size, mean = np.logspace(-3, 3, D), np.linspace(-100.0, 100.0, D)
    other = MultiTaskRegressor(random_state=0).fit(X * size + mean, y, tasks)
    expected = fitted["rank 3"].predict(X, tasks)
    np.testing.assert_allclose(other.predict(X * size + mean, tasks), expected, atol=1e-5)


def test_by_seed(fitted):
    train, _ = made("rank 3")
    same = MultiTaskRegressor(random_state=0, n_threads=1).fit(*train)
    np.testing.assert_array_equal(same.coef_, fitted["rank 3"].coef_)
    np.testing.assert_array_equal(same.path_["error"], fitted["rank 3"].path_["error"])
    other = MultiTaskRegressor(random_state=1).fit(*train)
    assert not np.array_equal(other.path_["error"][:1], same.path_["error"][:1])


def test_explicit_settings_are_the_papers_problem():
    (X, y, tasks), _ = made("rank 3")
    model = MultiTaskRegressor(2, 3.0, effects=None, random_state=0, tol=1e-9).fit(X, y, tasks)
    from rslm.losses import Square
    from rslm.measurements import Tasks
    from rslm.problem import Problem
    from rslm.solvers import solve

    middles = np.bincount(tasks, y) / np.bincount(tasks)
    data = Tasks(X, y - middles[tasks], tasks, intercept=True)
    expected = solve(Problem(Square(), data, C=3.0), 2, random_state=0, tol=1e-9)
    np.testing.assert_array_equal(model.coef_, expected.V @ expected.U.T)
    assert model.path_ is None
    assert model.held_out_ is None
    assert model.effects_ is None
    assert not model.common_coef_.any()
    assert model.C_ == 3.0


def test_what_was_found_can_be_given(fitted):
    model, train = fitted["rank 3"], made("rank 3")[0]
    again = MultiTaskRegressor(model._setting.rank, model.C_, effects=model.effects_, random_state=0).fit(*train)
    assert again.path_ is None
    np.testing.assert_array_equal(again.coef_, model.coef_)


@pytest.mark.parametrize("given", [{"rank": 2}, {"C": 0.3}, {"effects": (1.0, None)}, {"effects": None}])
def test_some_settings_are_given(given):
    (X, y, tasks), test = made("rank 3")
    model = MultiTaskRegressor(random_state=0, **given).fit(X, y, tasks)
    assert model.rank_ <= given.get("rank", D)
    assert pytest.approx(given.get("C", model.C_)) == model.C_
    assert model.path_ is not None
    assert error(model, test) < np.var(test[1])
    if "effects" in given:
        assert model.effects_ == given["effects"]


def test_without_intercepts():
    (X, y, tasks), _ = made("rank 3")
    model = MultiTaskRegressor(fit_intercept=False, random_state=0).fit(X, y - 2.0, tasks)
    assert not model.intercept_.any()
    assert model.common_intercept_ == 0.0
    assert model.score(X, y - 2.0, tasks=tasks) > 0.3


def test_new_tasks_start_from_the_common_model(fitted):
    _, (X, y, _tasks) = made("identical")
    model = fitted["identical"]
    common = X[:3] @ model.common_coef_ + model.common_intercept_
    np.testing.assert_allclose(model.predict(X[:3], tasks=["new"] * 3, unseen="mean"), common, rtol=1e-12)
    coef, intercept = model.fit_task(X[:2], y[:2])  # two rows cannot tell much
    assert np.linalg.norm(coef - model.common_coef_) < 0.3 * np.linalg.norm(coef)
    assert abs(intercept - model.common_intercept_) < 0.5
    coef, intercept = fitted["unrelated"].fit_task(*(part[: 12 * 20] for part in made("unrelated")[1][:2]))
    assert np.isfinite(coef).all()


def test_a_task_of_the_fit_is_found_again(fitted):
    """The models of the tasks are those of `fit_task` for the same rows."""
    (X, y, tasks), _ = made("rank 3")
    model = fitted["rank 3"]
    coef, intercept = model.fit_task(X[tasks == 3], y[tasks == 3])
    np.testing.assert_allclose(coef, model.coef_[3], atol=1e-4)  # the fit is stationary to tol
    assert intercept == pytest.approx(model.intercept_[3], abs=1e-4)


@pytest.mark.parametrize("kind", ["identical", "unrelated", "rank 3"])
def test_files(fitted, kind, tmp_path):
    model, (X, y, tasks) = fitted[kind], made(kind)[0]
    model.save(tmp_path / "m.rslm")
    back = rslm.load(tmp_path / "m.rslm")
    np.testing.assert_array_equal(back.predict(X, tasks), model.predict(X, tasks))
    np.testing.assert_array_equal(back.fit_task(X[:9], y[:9])[0], model.fit_task(X[:9], y[:9])[0])
    for name in ("C_", "rank_", "effects_", "task_part_", "held_out_", "common_intercept_"):
        assert getattr(back, name) == getattr(model, name)
    assert all(np.array_equal(back.path_[name], column) for name, column in model.path_.items())


def test_sparse_features():
    (X, y, tasks), _ = made("rank 3")
    X = np.where(np.abs(X) < 1.0, 0.0, X)
    model = MultiTaskRegressor(random_state=0).fit(sparse.csr_array(X), y, tasks)
    assert model.score(X, y, tasks=tasks) > 0.3


@pytest.mark.parametrize("loss", ["huber", "absolute"])
def test_other_losses(loss):
    train, test = made("rank 3")
    model = MultiTaskRegressor(loss=loss, random_state=0, tol=1e-4).fit(*train)
    assert error(model, test) < 0.9 * np.var(test[1])


def test_targets_of_different_units():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    Y = X @ rng.standard_normal((6, 2)) @ rng.standard_normal((2, 8)) + rng.standard_normal((60, 8))
    one, other = (ReducedRankRegressor(random_state=0).fit(X, Y * size) for size in (1.0, np.logspace(-3, 3, 8)))
    np.testing.assert_allclose(other.predict(X) / np.logspace(-3, 3, 8), one.predict(X), rtol=1e-6, atol=1e-6)


def wrong_targets():
    """Four targets, the outliers in a tenth of them, and their units."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 6))
    truth = X @ rng.standard_normal((6, 4))
    Y, wrong = truth + 0.1 * rng.standard_normal(truth.shape), rng.random(truth.shape) < 0.1
    Y[wrong] += 20 * rng.standard_normal(wrong.sum())
    return X, truth, Y, np.array([1.0, 1e4, 1e-4, 1.0])


@pytest.mark.parametrize("loss", ["huber", "epsilon_insensitive", "absolute", "quantile"])
def test_robust_losses_of_targets_of_different_units(loss):
    X, truth, Y, unit = wrong_targets()
    model = ReducedRankRegressor(loss=loss, random_state=0).fit(X, Y * unit)
    errors = np.sqrt(np.mean((model.predict(X) / unit - truth) ** 2, axis=0))
    assert (errors < (0.4 if loss == "epsilon_insensitive" else 0.1)).all()  # ε is a fifth of the spread


@pytest.mark.parametrize("loss", ["huber:0.5", Huber(0.5)])
def test_a_width_that_was_given_is_in_the_units_of_the_targets(loss):
    X, _, Y, _ = wrong_targets()
    model = ReducedRankRegressor(2, 1.0, effects=(1.0, 1.0), loss=loss, random_state=0).fit(X, Y)
    assert model.loss_ == Huber(0.5)
    assert (model._units.scale == 1.0).all()


@pytest.mark.parametrize(("loss", "power"), [("square", 1), ("absolute", 1), ("huber", 2)])
def test_errors_of_one_target_are_in_its_units(loss, power):
    """Root mean squares, or mean losses: that of Huber is quadratic in the unit."""
    X, _, Y, _ = wrong_targets()
    one, other = (ReducedRankRegressor(loss=loss, C=1.0, random_state=0).fit(X, size * Y[:, 0]) for size in (1.0, 1e3))
    for name, found in one.held_out_.items():
        assert other.held_out_[name] == pytest.approx(1e3**power * found, rel=1e-3)
    off = np.abs(Y[:, 0] - np.median(Y[:, 0]))
    size, delta = 1.4826 * np.median(off), 0.2 * 1.4826 * np.median(off)
    if loss == "huber":
        off = np.where(off <= delta, 0.5 * off**2, delta * (off - 0.5 * delta))
        assert other.loss_.delta == pytest.approx(delta / size)
    of_mean = off.mean() if loss != "square" else Y[:, 0].std()
    assert one.held_out_["mean"] == pytest.approx(of_mean, rel=0.1)


@pytest.mark.parametrize("loss", ["huber", "absolute"])
def test_weight_2_is_the_row_twice_in_units_of_targets_too(loss):
    X, _, Y, unit = wrong_targets()
    weights = np.random.default_rng(1).integers(1, 4, len(X))
    settings = {"loss": loss, "effects": (1.0, 1.0), "random_state": 0}
    one = ReducedRankRegressor(2, 1.0, **settings).fit(X, Y * unit, weights)
    twice = ReducedRankRegressor(2, 1.0, **settings).fit(np.repeat(X, weights, 0), np.repeat(Y * unit, weights, 0))
    np.testing.assert_allclose(one._units.scale, twice._units.scale, rtol=1e-12)
    np.testing.assert_allclose(one._units.middle, twice._units.middle, rtol=1e-12)


# ---- classes ---------------------------------------------------------------------------------------------------------


def classes(rows, seed):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal(D) + 0.3 * rng.standard_normal((T, 2)) @ rng.standard_normal((2, D))
    tasks, X = np.repeat(np.arange(T), rows), rng.standard_normal((T * rows, D))
    return X, rng.random(T * rows) < 1.0 / (1.0 + np.exp(-np.einsum("nd,nd->n", X, W[tasks]))), tasks


def test_a_pooled_classification_is_not_better():
    X, y, tasks = classes(100, seed=1)
    first = np.arange(len(y)) % 100 < 20
    model = MultiTaskClassifier(random_state=0).fit(X[first], y[first], tasks[first])
    pooled = LogisticRegression().fit(X[first], y[first])
    rest = X[~first], y[~first]
    assert log_loss(rest[1], model.predict_proba(rest[0], tasks[~first])) <= 1.01 * log_loss(
        rest[1], pooled.predict_proba(rest[0])
    )
    assert model.held_out_["model"] <= 1.001 * model.held_out_["pooled"]


def test_pairs_of_classes_have_no_common_coefficients():
    X = np.random.default_rng(0).standard_normal((120, 5))
    y = np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])
    model = MultiTaskClassifier(random_state=0).fit(X, y)
    assert model.effects_ is None
    assert not model.common_coef_.any()
    assert model.score(X, y) > 0.85


# ---- few rows, and bad input -----------------------------------------------------------------------------------------


def test_few_rows():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 3)), rng.standard_normal(12)
    constant = MultiTaskRegressor().fit(X, np.full(12, 7.0), np.arange(12) % 3)
    np.testing.assert_allclose(constant.predict(X, np.arange(12) % 3), 7.0, atol=1e-8)
    assert constant.rank_ == 0
    single = MultiTaskRegressor().fit(X, y)
    assert single.task_part_ == "none"
    alone = MultiTaskRegressor().fit(X, y, np.arange(12))
    assert alone.path_ is None  # nothing can be held out
    assert np.isfinite(alone.coef_).all()
    two = MultiTaskRegressor().fit(X[:2], y[:2], [0, 1])
    assert np.isfinite(two.predict(X[:2], [0, 1])).all()
    assert np.isfinite(MultiTaskRegressor().fit(X[:2], y[:2]).coef_).all()
    wide = MultiTaskRegressor().fit(rng.standard_normal((40, 130)), rng.standard_normal(40), np.arange(40) % 4)
    assert np.isfinite(wide.coef_).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"effects": "all"}, 'effects must be "auto", None, or two ridges'),
        ({"effects": (1.0,)}, "two ridges"),
        ({"effects": (1.0, -1.0)}, "each ≥ 0"),
        ({"effects": (1.0, float("nan"))}, "each ≥ 0"),
        ({"rank": "all"}, "rank must be a whole number ≥ 1; got 'all'"),
        ({"C": "all"}, "C must be a positive finite number"),
        ({"C": -1.0}, "C must be a positive finite number"),
        ({"C": 10**400}, "C must be a positive finite number"),
        ({"C": None}, "C must be a positive finite number"),
    ],
)
def test_bad_settings(given, message):
    X, y, tasks = made("rank 3")[0]
    with pytest.raises(ValueError, match=message):
        MultiTaskRegressor(**given).fit(X, y, tasks)
    with pytest.raises(NotFittedError):
        MultiTaskRegressor().predict(X, tasks)


def test_every_task_keeps_rows():
    strata = np.repeat(np.arange(50), np.arange(50) % 7 + 1)
    folds = fold_of_rows(strata, 5, np.random.default_rng(0))
    for k in range(5):
        assert len(np.unique(strata[folds != k])) == 50
    sizes = np.bincount(folds + 1)
    assert sizes[0] == np.sum(np.bincount(strata) == 1)
    assert np.ptp(sizes[1:]) <= 5
