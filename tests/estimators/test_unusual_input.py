"""Unusual input, without any setting: an answer that makes sense, or an error that says what to do."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from rslm import HankelModel, InductiveCompletion, MatrixCompletion, MultiTaskRegressor, ReducedRankRegressor
from rslm.estimators.automatic import folds

nan = np.nan
RNG = np.random.default_rng(0)
M = RNG.standard_normal((16, 2)) @ RNG.standard_normal((2, 12)) + 0.3 * RNG.standard_normal((16, 12))
KNOWN = RNG.random(M.shape) < 0.6
M[~KNOWN] = nan


def plain(X, **options):
    return MatrixCompletion(random_state=0, **options).fit(X)


def with_features(X, **options):
    features = np.random.default_rng(1).standard_normal((X.shape[0], 2))
    return InductiveCompletion(random_state=0, **options).fit(X, row_features=features)


@pytest.fixture(autouse=True)
def two_folds(monkeypatch):
    """Less time for each search; what is unusual is in every fold."""
    monkeypatch.setattr(folds, "FOLDS", 2)


COMPLETIONS = pytest.mark.parametrize("fit", [plain, with_features])
UNOBSERVED = pytest.mark.filterwarnings("ignore:.*no observed entry", "ignore:.*neither an observed entry")


def matrix_of(model):
    effects = model.intercept_ + model.row_effects_[:, None] + model.col_effects_
    return effects + model.row_factors_ @ model.col_factors_.T


def observed(*entries, shape=(16, 12)):
    X = np.full(shape, nan)
    for i, j, value in entries:
        X[i, j] = value
    return X


def one_of_row():
    X = M.copy()
    X[4] = nan
    X[4, 2] = 1.0  # it cannot be held out, or nothing would be known of the row
    return X


UNUSUAL = {
    "a row with one entry": one_of_row,
    "two entries": lambda: observed((0, 0, 1.0), (3, 4, 2.0)),
    "one entry": lambda: observed((2, 3, 5.0)),
    "one row": lambda: M[:1],
    "one column": lambda: M[KNOWN[:, 0]][:, :1],
    "one by one": lambda: np.array([[2.0]]),
    "a constant column": lambda: np.where(np.arange(12) == 3, 5.0, M),
    "columns without an entry": lambda: np.where(np.isin(np.arange(12), [2, 7]), nan, M),
    "integers": lambda: np.random.default_rng(0).integers(1, 6, (16, 12)),
    "booleans": lambda: np.random.default_rng(0).random((16, 12)) < 0.5,
    "integers in a sparse matrix": lambda: sparse.csr_array(np.random.default_rng(0).integers(0, 3, (16, 12))),
    "integers with missing ones": lambda: pd.DataFrame(M).round().astype("Int64"),
}


@UNOBSERVED
@COMPLETIONS
@pytest.mark.parametrize("kind", UNUSUAL)
def test_matrices(fit, kind):
    X = UNUSUAL[kind]()
    W = matrix_of(fit(X))
    values = X.data if sparse.issparse(X) else pd.DataFrame(X).to_numpy(dtype=float, na_value=nan)
    middle, reach = np.nanmean(values), 3.0 * max(float(np.nanmax(np.abs(values - np.nanmean(values)))), 1e-3)
    assert (np.abs(W - middle) <= reach).all()


@COMPLETIONS
@pytest.mark.parametrize("value", [3.0, 0.0, -1e6])
@pytest.mark.parametrize("loss", ["square", "absolute"])
def test_all_values_equal(fit, value, loss):
    model = fit(np.where(KNOWN, value, nan), loss=loss)
    assert model.rank_ == 0
    np.testing.assert_allclose(matrix_of(model), value, atol=1e-6 * abs(value))


@COMPLETIONS
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_one_class(fit, loss, recwarn):
    model = fit(np.where(KNOWN, 1.0, nan), loss=loss)
    assert model.rank_ == 0
    assert (matrix_of(model) > 0.5).all()
    assert ["only one class is observed" in str(w.message) for w in recwarn] == [True]


@COMPLETIONS
@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (
            np.where(np.arange(12) == 3, -1.0, 1.0) * np.ones((16, 1)),
            ValueError,
            "weights are negative, NaN or infinite",
        ),
        (np.where(np.arange(12) == 3, nan, 1.0) * np.ones((16, 1)), ValueError, "the first is nan at row"),
        (np.ones((3, 3)), ValueError, r"sample_weight has shape \(3, 3\), but X has shape \(16, 12\)"),
        (np.zeros((16, 12)), ValueError, "weights are zero, so nothing is observed"),
        (np.full((16, 12), "a"), TypeError, "real numbers are needed"),
    ],
)
def test_weights(fit, weights, error, message):
    estimator = MatrixCompletion() if fit is plain else InductiveCompletion()
    with pytest.raises(error, match=message):
        estimator.fit(M, sample_weight=weights)


@COMPLETIONS
def test_weights_of_another_pattern(fit):
    estimator = MatrixCompletion() if fit is plain else InductiveCompletion()
    X = sparse.csr_array(np.nan_to_num(M))
    with pytest.raises(
        ValueError, match=r"another pattern than X: row 0, column . is observed in X, but has no weight"
    ):
        estimator.fit(X, sample_weight=sparse.csr_array(np.ones((16, 12)) * (np.arange(12) % 2)))


X, TASKS = RNG.standard_normal((60, 4)), np.repeat(np.arange(6), 10)
Y = X @ [1.0, 2.0, 0.0, 0.0] + 0.1 * RNG.standard_normal(60)
ROWS = {
    "all targets equal": (X, np.full(60, 3.0), TASKS),
    "two rows": (X[:2], Y[:2], [0, 1]),
    "one row a task": (X[:6], Y[:6], np.arange(6)),
    "one task": (X, Y, np.zeros(60, dtype=int)),
    "one feature": (X[:, :1], Y, TASKS),
    "a constant feature": (np.where(np.arange(4) == 2, 7.0, X), Y, TASKS),
    "the same feature twice": (X[:, [0, 1, 1, 3]], Y, TASKS),
    "features that are 0": (np.zeros((60, 4)), Y, TASKS),
    "booleans": (X > 0, Y > 0, TASKS),
}


@pytest.mark.parametrize("kind", ROWS)
def test_tasks(kind):
    features, y, tasks = ROWS[kind]
    model = MultiTaskRegressor(random_state=0).fit(features, y, tasks=tasks)
    predicted = model.predict(features, tasks)
    reach = max(float(np.ptp(np.asarray(y, dtype=float))), 1e-6)
    assert (np.abs(predicted - y) <= reach).all()


def test_targets():
    for features, targets in ((X, np.full((60, 3), 2.0)), (X[:1], np.ones((1, 3))), (X, Y[:, None]), (X > 0, X > 0)):
        predicted = ReducedRankRegressor(random_state=0).fit(features, targets).predict(features)
        assert (np.abs(predicted.reshape(targets.shape) - targets) <= 1.0 + np.ptp(targets.astype(float))).all()


@pytest.mark.parametrize(
    ("weight", "message"),
    [(-1.0, "the first is -1 at row 3"), (nan, "negative, NaN or infinite: the first is nan at row 3")],
)
def test_weights_of_rows(weight, message):
    weights = np.ones(60)
    weights[3] = weight
    with pytest.raises(ValueError, match=message):
        MultiTaskRegressor().fit(X, Y, tasks=TASKS, sample_weight=weights)


@pytest.mark.filterwarnings("ignore:no order up to")
@pytest.mark.parametrize(
    "y", [np.full(50, 3.0), np.zeros(50), np.arange(30.0), np.ones(5), [1, 2, 3, 4], [True, False] * 9]
)
def test_series(y):
    model = HankelModel().fit(y)
    assert np.isfinite(model.signal_).all()
    if np.ptp(np.asarray(y, dtype=float)) == 0:
        np.testing.assert_allclose(model.forecast(3), y[0], atol=1e-6)
