"""Losses that resist outliers: the path begins with a C at which outliers carry no factor."""

from dataclasses import replace

import numpy as np
import pytest

from rslm import MatrixCompletion, ObservedMatrix, Problem, solve
from rslm.continuation.outliers import CARRIED, FIRST, LARGEST, STEP, resisting, resisting_C, with_smaller_C
from rslm.continuation.stage import Stage
from rslm.location import Location
from rslm.losses import Absolute, EpsilonInsensitive, Hinge, Huber, Quantile, Square
from rslm.measurements import Entries

RANK = 3


def with_outliers(seed, shape=(120, 40)):
    """One dominant positive factor, weak others, and outliers that are much larger than these."""
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0, 1, (shape[0], RANK)) @ rng.uniform(0, 1, (shape[1], RANK)).T
    X = truth + 0.02 * rng.standard_normal(shape)
    hit = rng.random(shape) < 0.05
    X[hit] += rng.choice([-5.0, 5.0], hit.sum())
    X[rng.random(shape) < 0.3] = np.nan
    return truth, X


def rms_of_missing(truth, X, W):
    return np.sqrt(np.mean((W - truth)[np.isnan(X)] ** 2))


def completed(model, shape):
    rows, cols = (a.ravel() for a in np.indices(shape))
    return model.predict(rows, cols).reshape(shape)


@pytest.mark.parametrize("C", [30.0, 100.0, 300.0, 2252.6, 1e5])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_weak_factors_are_found_in_spite_of_outliers_at_any_large_C(seed, C):
    truth, X = with_outliers(seed)
    problem = Problem(Absolute(), Entries(X.T), C=C)
    found = solve(problem, RANK, random_state=0)
    assert rms_of_missing(truth, X, (found.U @ found.V.T).T) < 0.05
    of_truth = C * np.nansum(np.abs(X - truth)) + 0.5 * np.linalg.norm(truth, "nuc") ** 2
    assert found.certificate.primal < of_truth
    left, values, _ = np.linalg.svd(truth.T, full_matrices=False)
    near = solve(problem, RANK, start=left[:, :RANK] * np.sqrt(values[:RANK]))
    assert found.certificate.primal <= 1.005 * near.certificate.primal


@pytest.mark.parametrize(
    "loss", [Huber(0.05), Huber(0.2), EpsilonInsensitive(0.02), Quantile(0.5)], ids=lambda loss: repr(loss)
)
def test_so_are_they_with_other_losses_that_resist_outliers(loss):
    truth, X = with_outliers(0)
    found = solve(Problem(loss, Entries(X.T), C=3e3 / loss.interval.reach), RANK, random_state=0)
    assert rms_of_missing(truth, X, (found.U @ found.V.T).T) < 0.05


def test_so_are_they_within_bounds():
    truth, X = with_outliers(1)
    model = MatrixCompletion(RANK, C=3e3, loss="absolute", effects=None, weighting=0, bounds=(-10, 10), random_state=0)
    assert rms_of_missing(truth, X, completed(model.fit(X), X.shape)) < 0.05


def test_so_are_they_if_every_setting_is_found():
    truth, X = with_outliers(0)
    model = MatrixCompletion(loss="absolute", random_state=0).fit(X)
    assert rms_of_missing(truth, X, completed(model, X.shape)) < 0.05


def test_the_path_begins_where_outliers_carry_no_factor():
    _, X = with_outliers(0)
    limit = resisting_C(Problem(Absolute(), Entries(X), C=1.0), usual=0.75)
    assert resisting(Problem(Absolute(), Entries(X), C=CARRIED * limit), usual=0.75) == []
    factors = resisting(Problem(Absolute(), Entries(X), C=200.0 * FIRST * limit), usual=0.75)
    assert factors == pytest.approx([200.0, 200.0 ** (2 / 3), 200.0 ** (1 / 3)])
    assert factors[-1] <= STEP
    assert resisting(Problem(Absolute(), Entries(X), C=1e12), usual=0.75)[0] == pytest.approx(LARGEST)


def test_it_depends_neither_on_the_units_of_the_data_nor_on_the_slope_of_the_loss():
    _, X = with_outliers(0)
    limit = resisting_C(Problem(Absolute(), Entries(X), C=1.0), 0.75)
    assert resisting_C(Problem(Absolute(), Entries(10 * X), C=1.0), 7.5) == pytest.approx(10 * limit)
    assert resisting_C(Problem(Huber(0.1), Entries(X), C=1.0), 0.75) == pytest.approx(10 * limit)


def test_weights_pull_harder():
    _, X = with_outliers(0)
    weighted = ObservedMatrix.from_any(X)
    weighted = replace(weighted, weights=np.full(len(weighted), 4.0))
    limits = [resisting_C(Problem(Absolute(), Entries(data), C=1.0), 0.75) for data in (X, weighted)]
    assert limits[0] == pytest.approx(4.0 * limits[1])


@pytest.mark.parametrize("loss", [Square(), Hinge()])
def test_other_losses_have_no_such_path(loss):
    Y = np.sign(np.random.default_rng(0).standard_normal((6, 5)))
    assert resisting(Problem(loss, Entries(Y), C=1e9), 1.0) == []


def test_ridges_of_effects_become_smaller_with_C():
    _, X = with_outliers(0)
    problem = Problem(Absolute(), Entries(X), C=1e3, location=Location(rows=50.0, columns=20.0))
    stage = with_smaller_C(Stage(problem), 100.0)
    assert stage.amount("C") == 100.0
    eased, location = stage.problem, stage.problem.location
    assert (eased.C, location.rows, location.columns) == pytest.approx((10.0, 0.5, 0.2))
    assert location.spread == problem.location.spread
