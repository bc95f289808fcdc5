"""Which tables have features in units of their own, without being asked to standardise them."""

import numpy as np
import pytest

from rslm import MatrixCompletion, ObservedMatrix
from rslm.estimators.completion.asked import units_of
from rslm.losses import Square


def table(shape, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1])) + 0.5 * rng.standard_normal(shape)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, rng.random(shape) < 0.2


def one_income(X):
    X[:, 3] = 3e4 + 1e4 * X[:, 3]


def one_rate(X):
    X[:, 3] = 0.2 + 1e-3 * X[:, 3]


def many_constants(X):
    X[:, :4] = X[:, :4] * [1.0, 1e4, 1e-2, 10.0]
    X[:, 4:] = 5.0


def few_rows(X):
    X *= 10.0 ** np.arange(X.shape[1])


@pytest.mark.parametrize(
    ("change", "shape"),
    [(one_income, (60, 16)), (one_rate, (60, 16)), (many_constants, (60, 10)), (few_rows, (8, 4))],
)
def test_no_feature_is_imputed_in_the_units_of_another(change, shape):
    """Also if one feature alone differs, if most are constant, or if all have missing entries in few rows."""
    X, missing = table(shape)
    change(X)
    model = MatrixCompletion(random_state=0).fit(np.where(missing, np.nan, X))
    spreads = np.where(X.std(axis=0) > 1e-9, X.std(axis=0), 1.0)
    errors = np.abs(model.predict(*np.nonzero(missing)) - X[missing]) / spreads[np.nonzero(missing)[1]]
    assert errors.max() < 5.0
    assert model.held_out_["mean"] < 2.0  # in standard deviations: that of every feature


def test_features_of_one_unit_are_not_divided():
    """One that is seldom anything but 0 has a small spread, in the units of all."""
    X, missing = table((60, 16))
    X[:, 3] = 0.0
    X[7, 3] = 1.0
    data = ObservedMatrix.from_any(np.where(missing, np.nan, X))
    assert units_of("auto", data, Square(), located=True, bounded=False) is None
