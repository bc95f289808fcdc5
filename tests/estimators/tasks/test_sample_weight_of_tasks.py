"""Weights of rows in multi-task models: a row of weight 0 is not there, and weight 2 is the row twice."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import accuracy_score, r2_score

from rslm import MultiTaskClassifier, MultiTaskRegressor, ReducedRankRegressor
from rslm.data import ObservedMatrix
from rslm.estimators.tasks.named_tasks import middles_of_tasks
from rslm.measurements import Tasks

RNG = np.random.default_rng(0)
TASKS = RNG.permutation(np.repeat(["a", "b", "c", "d"], 25))  # mixed, so that they have to be ordered
X = RNG.standard_normal((100, 5))
NUMBERS = np.unique(TASKS, return_inverse=True)[1]
COEF = np.outer([1.0, 2.0, -1.0, 0.5], [1.0, 2.0, 0.5, -1.0, 0.0])
Y = np.einsum("nd,nd->n", X, COEF[NUMBERS]) + 5 + NUMBERS + 0.3 * RNG.standard_normal(100)
WEIGHTS = RNG.integers(0, 4, 100).astype(float)
CLASSES = np.where(np.median(Y) < Y, "yes", "no")
KINDS = np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])  # three classes


def regressor(**options):
    return MultiTaskRegressor(rank=2, C=3.0, effects=None, random_state=0, **options)


def classifier(**options):
    return MultiTaskClassifier(rank=2, C=3.0, effects=None, random_state=0, **options)


CASES = {
    "regressor": (regressor, Y, {"tasks": TASKS}),
    "robust regressor": (lambda **o: regressor(loss="huber", **o), Y, {"tasks": TASKS}),
    "classifier": (classifier, CLASSES, {"tasks": TASKS}),
    "pairs of classes": (classifier, KINDS, {}),
}


def part(given, at):
    return {name: value[at] for name, value in given.items()}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, sparse.csr_array])
def test_a_row_of_weight_0_is_not_there(case, kind):
    make, y, given = CASES[case]
    there = WEIGHTS > 0
    found = make().fit(kind(X), y, sample_weight=there.astype(float), **given)
    without = make().fit(kind(X[there]), y[there], **part(given, there))
    np.testing.assert_array_equal(found.coef_, without.coef_)
    np.testing.assert_array_equal(found.intercept_, without.intercept_)


@pytest.mark.parametrize("case", CASES)
def test_weight_2_is_the_row_twice(case):
    make, y, given = CASES[case]
    found = make(tol=1e-10).fit(X, y, sample_weight=WEIGHTS, **given)
    times = WEIGHTS.astype(int)
    repeated = np.repeat(np.arange(100), times)
    twice = make(tol=1e-10).fit(X[repeated], y[repeated], **part(given, repeated))
    assert found.certificate_.primal == pytest.approx(twice.certificate_.primal, rel=1e-9)
    np.testing.assert_allclose(found.coef_, twice.coef_, atol=1e-6)  # both converge to tol, not to the last bit
    np.testing.assert_allclose(found.intercept_, twice.intercept_, atol=1e-6)


def test_what_the_measurement_gets():
    weights = WEIGHTS + 0.5
    data = Tasks(X, Y, NUMBERS, weights=weights)
    rows, tasks = data.places()
    np.testing.assert_array_equal(data.weights, weights[rows])
    np.testing.assert_array_equal(data.values, Y[rows])
    np.testing.assert_array_equal(tasks, NUMBERS[rows])
    assert data.of_rows().weights is data.weights
    assert "weights" in data.arrays()
    assert Tasks(X, Y, NUMBERS).weights is None
    targets = np.where(RNG.random((100, 3)) < 0.3, np.nan, RNG.standard_normal((100, 3)))
    table = np.broadcast_to(weights[:, None], targets.shape)
    shared = Tasks.shared(X, ObservedMatrix.from_any(targets).weighted(table))
    np.testing.assert_array_equal(shared.weights, weights[shared.places()[0]])
    for bad in (np.zeros(100), np.ones(99), np.full(100, np.nan), np.full(100, np.inf)):
        with pytest.raises(ValueError, match="weights must be 100 positive numbers, one for every row of X"):
            Tasks(X, Y, NUMBERS, weights=bad)


@pytest.mark.parametrize("robust", [False, True])
def test_middles_are_those_of_repeated_rows(robust):
    times = WEIGHTS.astype(int) + 1
    repeated = np.repeat(np.arange(100), times)
    found = middles_of_tasks(Y, NUMBERS, robust, times.astype(float))
    np.testing.assert_allclose(found, middles_of_tasks(Y[repeated], NUMBERS[repeated], robust), rtol=1e-13)
    halves = middles_of_tasks(Y, NUMBERS, robust, 0.5 * np.ones(100))
    np.testing.assert_allclose(halves, middles_of_tasks(Y, NUMBERS, robust), rtol=1e-13)


@pytest.mark.parametrize("make", [regressor, classifier])
def test_bad_weights(make):
    y = Y if make is regressor else CLASSES
    cases = {
        r"sample_weight.shape == \(99,\), expected \(100,\)": np.ones(99),
        "Sample weights must be 1D array or scalar": np.ones((100, 2)),
        "NaN or infinite: the first is nan at row 3": np.where(np.arange(100) == 3, np.nan, 1.0),
        "Sample weights must contain at least one non-zero number": np.zeros(100),
        r"1 of 100 sample weights are negative, NaN or infinite: the first is -2 at row 3. A weight must be": np.where(
            np.arange(100) == 3, -2.0, 1.0
        ),
        "task 'b' has no rows: all its rows have weight 0": (TASKS != "b").astype(float),
    }
    for said, weights in cases.items():
        with pytest.raises(ValueError, match=said):
            make().fit(X, y, TASKS, weights)


def test_missing_targets_and_weights():
    y = Y.copy()
    y[[4, 9]] = np.nan
    weights = WEIGHTS + 0.5
    weights[4] = 0.0  # so that only row 9 is missing
    with pytest.raises(ValueError, match="1 of 99 targets are missing"):
        regressor().fit(X, y, TASKS, weights)
    found = regressor().fit(X, y, TASKS, np.where(np.isnan(y), 0.0, 1.0))
    dropped = regressor().fit(X, y, TASKS, np.ones(100), drop_missing=True)
    np.testing.assert_array_equal(found.coef_, dropped.coef_)


def test_lists_of_tasks():
    each = [t == NUMBERS for t in range(4)]
    data = [X[at] for at in each], [Y[at] for at in each]
    there = [(WEIGHTS[at] > 0).astype(float) for at in each]
    found = regressor().fit(*data, sample_weight=there)
    stacked = regressor().fit(*data, sample_weight=np.concatenate(there))
    np.testing.assert_array_equal(found.coef_, stacked.coef_)
    assert found.score(X, Y, tasks=NUMBERS) > 0.9


def test_a_new_task():
    fitted = regressor().fit(X, Y, TASKS)
    at = np.flatnonzero(TASKS == "a")
    there = WEIGHTS[at] > 0
    found, expected = fitted.fit_task(X[at], Y[at], there), fitted.fit_task(X[at[there]], Y[at[there]])
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1] == expected[1]


def test_scores():
    model = regressor().fit(X, Y, TASKS)
    expected = r2_score(Y, model.predict(X, TASKS), sample_weight=WEIGHTS)
    assert model.score(X, Y, sample_weight=WEIGHTS, tasks=TASKS) == expected
    model = classifier().fit(X, CLASSES, TASKS)
    expected = accuracy_score(CLASSES, model.predict(X, TASKS), sample_weight=WEIGHTS)
    assert model.score(X, CLASSES, sample_weight=WEIGHTS, tasks=TASKS) == expected


@pytest.mark.parametrize("complete", [True, False])
def test_reduced_rank_weight_2_is_the_row_twice(complete):
    """Complete targets with the square loss are reduced to a few rows, where weights are factors of them."""
    targets = X @ RNG.standard_normal((5, 3)) + 0.3 * RNG.standard_normal((100, 3))
    if not complete:
        targets[RNG.random(targets.shape) < 0.1] = np.nan
    repeated = np.repeat(np.arange(100), WEIGHTS.astype(int))
    one, other = (ReducedRankRegressor(rank=2, C=3.0, effects=None, random_state=0, tol=1e-10) for _ in range(2))
    one.fit(X, targets, sample_weight=WEIGHTS)
    other.fit(X[repeated], targets[repeated])
    assert one.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-9)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-6)  # both converge to tol, not to the last bit
    np.testing.assert_allclose(one.intercept_, other.intercept_, atol=1e-6)


def test_reduced_rank_weight_0_is_not_there():
    targets = np.where(RNG.random((100, 3)) < 0.1, np.nan, X @ RNG.standard_normal((5, 3)))
    there = WEIGHTS > 0
    found = ReducedRankRegressor(rank=2, C=1.0, effects=None, random_state=0).fit(X, targets, there)
    np.testing.assert_array_equal(
        found.coef_,
        ReducedRankRegressor(rank=2, C=1.0, effects=None, random_state=0).fit(X[there], targets[there]).coef_,
    )
    with pytest.raises(ValueError, match="the first is -1 at row 0"):
        ReducedRankRegressor().fit(X, targets, np.where(np.arange(100) == 0, -1.0, 1.0))
