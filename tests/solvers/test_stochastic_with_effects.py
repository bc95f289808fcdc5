"""Streams of columns with a location: the steps find what a fit of all columns finds."""

import numpy as np
import pytest

from rslm import Problem, solve
from rslm.evaluation.objective import Objective
from rslm.location import Effects, Location
from rslm.losses import Huber, Square
from rslm.measurements import Entries
from rslm.solvers.stochastic import StochasticSteps

D, T, RANK, BATCH = 30, 4000, 2, 400


def stream():
    rng = np.random.default_rng(0)
    W = 3 + 0.7 * rng.standard_normal((D, 1)) + 0.4 * rng.standard_normal(T)
    W = W + 0.6 * rng.standard_normal((D, RANK)) @ rng.standard_normal((RANK, T))
    return np.where(rng.random((D, T)) < 0.3, W + 0.3 * rng.standard_normal((D, T)), np.nan)


LOCATIONS = [
    None,
    Location(rows=5.0, columns=2.0),
    Location(columns=2.0),
    Location(mean=False, rows=5.0),
    Location(rows=0.0),
]


@pytest.mark.parametrize("location", LOCATIONS, ids=repr)
@pytest.mark.parametrize("loss", [Square(), Huber(0.5)], ids=repr)
def test_a_pass_is_near_the_optimum(loss, location):
    Y, steps = stream(), None
    for k in range(0, T, BATCH):
        objective = Objective(Problem(loss, Entries(Y[:, k : k + BATCH]), location=location), 1)
        if steps is None:
            first = solve(objective.problem, RANK, max_iter=4, tol=0.0, random_state=0, certificate=False)
            steps = StochasticSteps(first.U, first.effects)
        else:  # as from a file
            steps = StochasticSteps.of_state(*steps.state(), effects=steps.effects)
        steps.step(objective.evaluate(objective.point(steps.U, steps.effects)))
    whole = Objective(Problem(loss, Entries(Y), location=location), 1)
    best = solve(whole.problem, RANK, random_state=0, certificate=False).value
    begun, found = (whole.evaluate(whole.point(s.U, s.effects)).value for s in (first, steps))
    assert found - best < 2e-3 * best  # one pass; measured: at most 8e-4
    assert found - best < 0.3 * (begun - best)


def test_the_penalty_counts_once():
    """With U fixed at 0 curvature, effects of a square loss are those of a ridge regression on all batches."""
    rng = np.random.default_rng(0)
    Y, rho = 2 + rng.standard_normal((5, 60)), 40.0
    steps = StochasticSteps(np.ones((5, 1)) / np.sqrt(5), Effects.none((5, 60)))
    location = Location(mean=False, rows=rho)
    for k in range(0, 60, 20):
        # A huge weight of the trace norm keeps W at 0.
        batch = Entries(Y[:, k : k + 20])
        problem = Problem(Square(), batch, location=location, column_weights=np.full(20, 1e12))
        objective = Objective(problem, 1)
        steps.step(objective.evaluate(objective.point(steps.U, steps.effects)))
        if k == 0:
            np.testing.assert_allclose(steps.effects.rows, 2 * Y[:, :20].sum(axis=1) / (40 + rho), rtol=1e-6)
    # Later batches are forgotten slowly, so that their weights differ; the ridge is that of all of them.
    kept = 1 - 0.5 / np.sqrt(np.array([2.0, 3.0]))
    A, total = 40.0, 2 * Y[:, :20].sum(axis=1)
    b = total / (A + rho)
    for k, gamma in zip((20, 40), kept, strict=True):
        A = gamma * A + 40.0
        b = b + (2 * Y[:, k : k + 20].sum(axis=1) - 40.0 * b) / (A + rho)
    np.testing.assert_allclose(steps.effects.rows, b, rtol=1e-6)


def test_a_state_of_another_shape_is_refused():
    steps = StochasticSteps(np.ones((5, 1)))
    with pytest.raises(ValueError, match=r"curvature must have shape \(5, 2, 2\)"):
        StochasticSteps.of_state(*steps.state(), effects=Effects.none((5, 3)))
