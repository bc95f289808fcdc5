"""Bounds hold for predictions, location included: at the end, after a stop, and where evaluations are moved inside."""

import numpy as np
import pytest
from location_oracle import objective, predictions
from locations import LOCATIONS, table
from scipy import sparse

from rslm import Objective, Problem, solve
from rslm.inner.kept_location import Inside, moved_inside
from rslm.location import Effects, Location
from rslm.losses import Absolute, Huber, Logistic, Square
from rslm.measurements import Entries, Measurement, Tasks
from rslm.solvers import Outcome
from rslm.structures import Box, SoftBox

D, T = 20, 15
RNG = np.random.default_rng(7)
BOXES = {
    "both": Box(1.0, 5.0),
    "narrow": Box(2.9, 3.0),
    "one number": Box(3.0, 3.0),
    "lower": Box(4.0, None),
    "upper": Box(None, 2.0),
    "far above": Box(100.0, 101.0),
    "by row": Box(np.arange(D)[:, None] * 0.5, np.arange(D)[:, None] * 0.5 + 1.0),  # no number is within all of them
    "by column": Box(np.arange(T) * 0.5, np.arange(T) * 0.5 + 1.0),
    "above, by row": Box(RNG.uniform(0.0, 3.0, (D, 1)), None),
    "by entry": Box(RNG.uniform(1.0, 2.0, (D, T)), RNG.uniform(3.0, 4.0, (D, T))),
}


def far(scale=1.0, seed=0):
    """Ratings, or `scale` times as far from their mean."""
    rng = np.random.default_rng(seed)
    Y = table(rng, D, T, noise=1.0)
    return np.where(rng.random((D, T)) < 0.5, 3.0 + scale * (Y - 3.0), np.nan)


def check_inside(box, W):
    lower, upper = box.planes(W.shape)
    allowed = 1e-9 * max(np.abs(np.clip(W, lower, upper)).max(), 1e-300)
    assert (lower - W).max() <= allowed
    assert (W - upper).max() <= allowed


@pytest.mark.parametrize("location", LOCATIONS)
@pytest.mark.parametrize("box", BOXES)
def test_predictions_are_moved_inside(box, location):
    """From anywhere, in a few passes."""
    rng, location, bounds = np.random.default_rng(1), LOCATIONS[location], BOXES[box]
    for size in (0.1, 10.0):
        effects = Effects(
            3.0 * location.mean,
            size * rng.standard_normal(D) * (location.rows is not None),
            size * rng.standard_normal(T) * (location.columns is not None),
            np.zeros(0),
        )
        given = Inside(rng.standard_normal((D, 3)), size * rng.standard_normal((T, 3)), effects)
        seen = []
        found = moved_inside(bounds, location, given, lambda one, seen=seen: seen.append(one) or float(len(seen)))
        assert found is not None
        for one in seen:  # all of them, whichever is the best
            e = one.effects
            check_inside(bounds, predictions_of(one))
            assert location.mean or e.mean == 0.0
            assert location.rows is not None or not e.rows.any()
            assert location.columns is not None or not e.columns.any()


def test_bounds_that_no_simple_matrix_keeps():
    checkers = np.indices((D, T)).sum(axis=0) % 2 * 4.0
    given = Inside(np.ones((D, 1)), np.ones((T, 1)), Effects.none((D, T)))
    assert moved_inside(Box(checkers, checkers + 1.0), Location(), given, lambda one: 0.0) is None


def test_what_is_inside_hardly_moves():
    rng = np.random.default_rng(1)
    effects = Effects(3.0, 0.1 * rng.standard_normal(D), 0.1 * rng.standard_normal(T), np.zeros(0))
    given = Inside(0.1 * rng.standard_normal((D, 2)), 0.1 * rng.standard_normal((T, 2)), effects)
    W = predictions_of(given)
    found = moved_inside(Box(0.0, 6.0), LOCATIONS["all"], given, lambda one: np.abs(predictions_of(one) - W).max())
    assert np.abs(predictions_of(found) - W).max() <= 0.05


def predictions_of(one):
    return one.X @ one.V.T + one.effects.mean + one.effects.rows[:, None] + one.effects.columns


@pytest.mark.parametrize("location", LOCATIONS)
@pytest.mark.parametrize("box", BOXES)
def test_evaluations_are_moved_inside(box, location):
    """At any point, also where no V keeps the bounds."""
    problem = Problem(Square(), Entries(far()), SoftBox(BOXES[box], 0.1), C=0.5, location=LOCATIONS[location])
    point_rng, found = np.random.default_rng(2), 0
    for size in (0.1, 20.0):
        U = point_rng.standard_normal((D, 2))
        rows = size * point_rng.standard_normal(D) * (problem.location.rows is not None)
        objective_ = Objective(problem, 1)
        effects = Effects(3.0 * problem.location.mean, rows, np.zeros(T), np.zeros(0))
        kept = objective_.evaluate(objective_.point(U / np.linalg.norm(U), effects)).within_bounds()
        assert np.isfinite(kept.value)
        check_inside(BOXES[box], predictions_of(Inside(kept.U, kept.V, kept.effects)))
        assert kept.primal(problem) <= kept.value * (1 + 1e-9) + 1e-9
        found += 1
    assert found == 2


@pytest.mark.parametrize("max_iter", [0, 1, 4])
@pytest.mark.parametrize("box", BOXES)
def test_iteration_limits(box, max_iter):
    problem = Problem(Square(), Entries(far(3.0)), BOXES[box], C=0.5, location=LOCATIONS["all"])
    result = solve(problem, 3, max_iter=max_iter, random_state=0, n_threads=1)
    assert result.outcome is not Outcome.FAILED
    check_inside(BOXES[box], predictions(result))
    assert objective(problem, result) <= result.certificate.primal * (1 + 1e-9)


@pytest.mark.parametrize("max_time", [1e-9, 1e-3, 1e-2])
@pytest.mark.parametrize("location", ["mean", "all", "both free", "columns"])
@pytest.mark.parametrize("box", ["both", "lower", "by row", "by column", "far above"])
def test_time_limits(box, location, max_time):
    problem = Problem(Huber(0.5), Entries(far(100.0)), BOXES[box], C=0.5, location=LOCATIONS[location])
    result = solve(problem, 3, max_time=max_time, random_state=0, n_threads=1)
    assert result.outcome is not Outcome.FAILED
    assert np.isfinite(result.value)
    check_inside(BOXES[box], predictions(result))
    assert result.certificate.dual <= result.certificate.primal
    assert np.linalg.norm(result.U) == pytest.approx(1.0)


@pytest.mark.parametrize("loss", [Square(), Huber(0.5), Absolute(), Logistic()], ids=repr)
def test_data_far_beyond(loss):
    Y = far(100.0)
    Y = np.where(np.isnan(Y), np.nan, np.sign(Y)) if loss.binary else Y
    box = Box(-0.1, 0.1) if loss.binary else Box(1.0, 5.0)
    for location in ("mean", "all"):
        problem = Problem(loss, Entries(Y), box, C=0.5, location=LOCATIONS[location])
        result = solve(problem, 3, random_state=0, n_threads=1, max_iter=100)
        assert result.outcome is not Outcome.FAILED
        check_inside(box, predictions(result))


class Pairs(Measurement):
    """Means of two entries of a column, so that the generic solver is used."""

    couples_columns = False
    locatable = True

    def __init__(self, rows, column, values):
        self.rows, self.column, self.values = rows, column, values

    @property
    def shape(self):
        return D, T

    def apply(self, X, V, threads=1):
        return 0.5 * np.einsum("pk,pk->p", X[self.rows[0]] + X[self.rows[1]], V[self.column])

    def adjoint(self, z):
        at = np.concatenate(self.rows), np.tile(self.column, 2)
        return sparse.coo_array((0.5 * np.tile(z, 2), at), shape=self.shape).tocsr()

    def located(self):
        return self, np.ones(D)

    def groups(self, side):
        return self.column


@pytest.mark.parametrize("box", ["both", "narrow", "by row"])
@pytest.mark.parametrize("location", ["mean", "all"])
def test_generic_solver(box, location):
    rng = np.random.default_rng(3)
    data = Pairs(rng.integers(0, D, (2, 80)), rng.integers(0, T, 80), 3.0 + 2.0 * rng.standard_normal(80))
    problem = Problem(Square(), data, BOXES[box], C=0.5, location=LOCATIONS[location])
    result = solve(problem, 2, max_iter=30, random_state=0, n_threads=1)
    assert result.outcome is not Outcome.FAILED
    check_inside(BOXES[box], predictions(result))
    assert result.certificate.dual <= result.certificate.primal


def test_bounds_of_coefficients_have_no_location():
    X, of = np.random.default_rng(0).standard_normal((12, 4)), np.arange(12) % 3
    with pytest.raises(ValueError, match="bounds and a location"):
        Problem(Square(), Tasks(X, np.ones(12), of), Box(0.0, None), location=Location())
