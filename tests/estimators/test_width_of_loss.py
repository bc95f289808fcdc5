"""The widths of "huber" and "epsilon_insensitive" follow from the data where they are not given."""

from dataclasses import astuple

import numpy as np
import pytest

import rslm
from plain import plain_completion
from rslm import InductiveCompletion, MatrixCompletion, MultiTaskRegressor, ReducedRankRegressor
from rslm.estimators.defaults import WIDTH, spread
from rslm.losses import EpsilonInsensitive, Huber, Quantile

NAMES = ("huber", "epsilon_insensitive")


def panel(seed=0):
    """A matrix of rank 2 with noise of 0.1, and one entry in twelve that is wrong by a lot."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 30))
    X = W + 0.1 * rng.standard_normal(W.shape)
    wrong = rng.random(W.shape) < 1 / 12
    X[wrong] += 20 * rng.standard_normal(wrong.sum())
    X[rng.random(W.shape) < 0.4] = np.nan
    return W, X


def tasks():
    """Six related regressions with noise of 0.1, and one target in twelve that is wrong by a lot."""
    rng = np.random.default_rng(0)
    W = rng.standard_normal((6, 2)) @ rng.standard_normal((2, 8))
    X, of_rows = rng.standard_normal((240, 8)), np.repeat(np.arange(6), 40)
    y = np.einsum("nd,nd->n", X, W[of_rows]) + 5.0 * of_rows + 0.1 * rng.standard_normal(240)
    y[::12] += 50 * rng.standard_normal(20)
    return X, y, of_rows, W


def width(model):
    return astuple(model.loss_)[0]


def relative_error(found, W):
    return np.linalg.norm(found - W) / np.linalg.norm(W)


@pytest.mark.parametrize("unit", [1e-3, 1e4])
@pytest.mark.parametrize("loss", NAMES)
def test_data_in_another_unit_have_the_same_answer(loss, unit):
    _, X = panel()
    C = 1.0
    one = plain_completion(2, C, loss=loss, random_state=0).fit(X)
    # Huber's loss is quadratic in the unit, as the trace norm is; the other is linear.
    other = plain_completion(2, C if loss == "huber" else C * unit, loss=loss, random_state=0).fit(unit * X)
    assert width(other) == pytest.approx(unit * width(one), rel=1e-12)
    # Both are stationary to the tolerance of a solver, not further.
    assert relative_error(other.transform(unit * X) / unit, one.transform(X)) < 1e-3


@pytest.mark.parametrize("loss", NAMES)
def test_the_width_is_a_share_of_a_robust_spread(loss):
    _, X = panel()
    median = np.nanmedian(X)
    spread = 1.4826 * np.nanmedian(np.abs(X - median))
    assert width(plain_completion(2, 1.0, loss=loss).fit(X)) == pytest.approx(WIDTH * spread, rel=1e-12)


@pytest.mark.parametrize("effects", ["auto", None])
def test_small_numbers_are_repaired_without_a_width(effects):
    """With δ = 1, as the class Huber has it, no error would be large."""
    W, X = panel()
    unit = 1e-4
    model = MatrixCompletion(2, loss="huber", effects=effects, random_state=0).fit(unit * X)
    square = MatrixCompletion(2, effects=effects, random_state=0).fit(unit * X)
    rows, cols = np.indices(W.shape).reshape(2, -1)
    assert relative_error(model.predict(rows, cols) / unit, W.ravel()) < 0.1
    assert relative_error(square.predict(rows, cols) / unit, W.ravel()) > 0.3


def test_features_in_units_of_their_own():
    """A year, a share and a price: the spread of all values together says nothing of any of them."""
    W, X = panel()
    units, means = np.tile([1.0, 1e-3, 1e4, 10.0, 0.1], 6), np.tile([2000.0, 0.5, 1e5, 0.0, 3.0], 6)
    model = MatrixCompletion(2, loss="huber", random_state=0).fit(means + units * X)
    # In units of standard deviations, which the outliers make about six times as large as the spread of the others.
    assert 0.005 < width(model) < 0.5
    rows, cols = np.indices(W.shape).reshape(2, -1)
    found = (model.predict(rows, cols).reshape(W.shape) - means) / units
    assert relative_error(found, W) < 0.15


@pytest.mark.parametrize(
    ("given", "used"),
    [("huber:0.5", Huber(0.5)), (EpsilonInsensitive(0.2), EpsilonInsensitive(0.2)), ("quantile", Quantile(0.5))],
)
def test_other_losses_are_as_given(given, used):
    _, X = panel()
    assert plain_completion(2, 1.0, loss=given).fit(X).loss_ == used


@pytest.mark.parametrize("make", [MultiTaskRegressor, ReducedRankRegressor])
@pytest.mark.parametrize("settings", [{}, {"rank": 2, "C": 10.0, "effects": None}], ids=["found", "given"])
def test_regressions_in_any_unit(make, settings):
    X, y, of_rows, W = tasks()
    unit = 1e-3

    def fitted(y):
        model = make(loss="huber", random_state=0, **settings)
        if make is MultiTaskRegressor:
            return model.fit(X, y, tasks=of_rows)
        Y = np.full((len(y), 6), np.nan)
        Y[np.arange(len(y)), of_rows] = y
        return model.fit(X, Y)

    small, large = fitted(unit * y), fitted(y / unit)
    divided = make is ReducedRankRegressor and not settings  # targets have units of their own, and the width is in them
    assert width(small) == pytest.approx(width(large) * (1.0 if divided else unit**2), rel=1e-9)
    for model, by in ((small, unit), (large, 1 / unit)):
        assert relative_error(model.coef_ / by, W) < 0.1


def test_side_information():
    W, X = panel()
    rows = np.linalg.svd(W)[0][:, :2]
    model = InductiveCompletion(loss="huber", random_state=0).fit(1e-4 * X, row_features=rows)
    assert width(model) == pytest.approx(WIDTH * 1e-4 * 1.4826 * np.nanmedian(np.abs(X - np.nanmedian(X))))


def test_a_stream_keeps_the_width_of_its_first_samples():
    _, X = panel()
    model = MatrixCompletion(2, 1.0, loss="huber", effects=None).partial_fit(X[:40])
    first = width(model)
    assert width(model.partial_fit(100 * X[40:])) == first


def test_a_fit_after_a_fit_has_its_own_width():
    _, X = panel()
    model = plain_completion(2, 1.0, loss="huber").fit(X)
    first = width(model)
    assert width(model.fit(8 * X)) == pytest.approx(8 * first, rel=1e-12)


@pytest.mark.parametrize("loss", NAMES)
def test_the_width_is_in_the_file(tmp_path, loss):
    _, X = panel()
    model = plain_completion(2, 1.0, loss=loss).fit(1e3 * X)
    model.save(tmp_path / "m")
    back = rslm.load(tmp_path / "m")
    assert back.loss == loss
    assert back.loss_ == model.loss_
    np.testing.assert_array_equal(back.transform(1e3 * X[:5]), model.transform(1e3 * X[:5]))


def test_the_width_of_regressions_is_in_the_file(tmp_path):
    X, y, of_rows, _ = tasks()
    model = MultiTaskRegressor(2, 10.0, loss="huber").fit(X, 1e3 * y, tasks=of_rows)
    model.save(tmp_path / "m")
    back = rslm.load(tmp_path / "m")
    assert back.loss_ == model.loss_
    np.testing.assert_array_equal(back.fit_task(X[:40], y[:40])[0], model.fit_task(X[:40], y[:40])[0])


def test_a_common_offset_changes_nothing():
    """The fit of all data starts where the search has ended, whose effects are measured in another spread."""
    W, X = panel()
    rows, cols = np.indices(W.shape).reshape(2, -1)
    model = MatrixCompletion(loss="huber", random_state=0, max_iter=300).fit(X + 1e6)
    assert relative_error(model.predict(rows, cols) - 1e6, W.ravel()) < 0.1


@pytest.mark.parametrize("weights", ["rows", "entries"])
def test_a_weight_of_2_is_the_value_twice(weights):
    X, y, of_rows, _ = tasks()
    twice = np.arange(len(y)) % 3 == 0
    again = np.concatenate([np.arange(len(y)), np.flatnonzero(twice)])
    if weights == "rows":
        one = MultiTaskRegressor(2, 10.0, loss="huber").fit(X, y, tasks=of_rows, sample_weight=1.0 + twice)
        other = MultiTaskRegressor(2, 10.0, loss="huber").fit(X[again], y[again], tasks=of_rows[again])
    else:
        one = plain_completion(2, 1.0, loss="huber").fit(y.reshape(60, 4), sample_weight=(1.0 + twice).reshape(60, 4))
        assert width(one) == pytest.approx(WIDTH * spread(y[again]), rel=1e-12)
        return
    assert width(one) == pytest.approx(width(other), rel=1e-12)


def test_outliers_are_found_in_features_of_any_unit():
    W, X = panel()
    units = np.where(np.arange(30) < 15, 1.0, 1000.0)
    scores = MatrixCompletion(2, 100.0, loss="huber", random_state=0).fit(units * X).outlier_scores_.to_dense()
    wrong = np.abs(X - W) > 3  # 30 times the noise
    fine = np.abs(X - W) < 0.3
    for columns in (slice(0, 15), slice(15, 30)):
        assert np.mean(scores[:, columns][wrong[:, columns]] > 5) > 0.95
        assert np.mean(scores[:, columns][fine[:, columns]] > 5) < 0.05
