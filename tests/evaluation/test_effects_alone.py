"""The best effects without W, compared with minimisers that know nothing of our solvers."""

import numpy as np
import pytest
from scipy.optimize import minimize

from rslm import ObservedMatrix, Problem
from rslm.evaluation.effects import effects_alone
from rslm.location import Location
from rslm.losses import Absolute, Huber, Logistic, Square
from rslm.measurements import Entries, Tasks
from rslm.structures import Box

RNG = np.random.default_rng(0)
D, T = 7, 9
KNOWN = RNG.random((D, T)) < 0.6
Y = np.where(KNOWN, 40 + RNG.standard_normal((D, 1)) + RNG.standard_normal(T) + RNG.standard_normal((D, T)), np.nan)
WEIGHTS = RNG.random(int(KNOWN.sum())) + 0.5


def objective(problem, x):
    """C Σ ω ℓ + ridges, from μ, b and c in one vector."""
    location, d = problem.location, problem.shape[0]
    mean, b, c = x[0] * location.mean, x[1 : d + 1], x[d + 1 :]
    i, t = problem.data.places()
    w = mean + c[t] + (problem.data.features.X[i] @ b if isinstance(problem.data, Tasks) else b[i])
    weights = 1.0 if problem.data.weights is None else problem.data.weights
    cost = 0.5 * location.rows * b @ b + 0.5 * location.columns * c @ c
    return problem.C * float(np.sum(weights * problem.loss.value(problem.data.values, w))) + cost


def value_of(problem, effects):
    return objective(problem, np.concatenate([[effects.mean], effects.rows, effects.columns]))


@pytest.mark.parametrize("location", [Location(rows=1.0, columns=2.0), Location(rows=0.0, columns=0.0)], ids=repr)
@pytest.mark.parametrize("loss", [Square(), Huber(0.5), Logistic()], ids=repr)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
def test_entries(loss, location, weighted):
    if loss.binary and location.rows == 0.0:
        pytest.skip("two classes may be separated by effects without penalty, which then grow without limit")
    y = np.where(KNOWN, np.where(Y > 40, 1.0, -1.0), np.nan) if loss.binary else Y
    data = ObservedMatrix.from_any(y)
    # Weights of the trace norm and bounds concern W alone.
    entries = Entries(data.weighted(WEIGHTS) if weighted else data)
    weights = {"row_weights": np.linspace(1, 2, D)}
    problem = Problem(loss, entries, Box(-100, 100), C=2.0, location=location, **weights)
    start = np.zeros(1 + D + T)
    start[1 : D + 1] = 0.0 if loss.binary else 40.0
    best = minimize(lambda x: objective(problem, x), start, method="BFGS", options={"gtol": 1e-7})
    # BFGS with differences has an error of about √eps in its gradient, and ours is not worse.
    assert value_of(problem, effects_alone(problem, 1)) <= best.fun + 1e-8 * abs(best.fun)


@pytest.mark.parametrize("loss", [Square(), Huber(0.5)], ids=repr)
def test_tasks(loss):
    X, tasks = RNG.standard_normal((60, 4)), np.repeat(np.arange(6), 10)
    y = X @ RNG.standard_normal(4) + 5 + 0.5 * tasks + RNG.standard_normal(60)
    problem = Problem(loss, Tasks(X, y, tasks), C=2.0, location=Location(rows=1.0, columns=0.5))
    best = minimize(lambda x: objective(problem, x), np.zeros(1 + 4 + 6), method="BFGS", options={"gtol": 1e-7})
    assert value_of(problem, effects_alone(problem, 1)) <= best.fun + 1e-8 * abs(best.fun)


def test_kinks_far_from_zero():
    """Where all errors are beyond a kink, the loss has no curvature; the median must be found all the same."""
    problem = Problem(Absolute(), Entries(Y), location=Location())
    known = Y[KNOWN]
    least = float(np.abs(known - np.median(known)).sum())
    found = effects_alone(problem, 1)
    assert np.abs(known - found.mean).sum() <= 1.001 * least  # kinks are rounded a little


def test_rows_without_curvature_at_the_start():
    """Huber's loss of rows whose errors are all in its linear part."""
    y = np.arange(6.0)[:, None] * 100 + RNG.standard_normal((6, 8))
    found = effects_alone(Problem(Huber(0.5), Entries(y), location=Location(rows=0.0)), 1)
    np.testing.assert_allclose(found.rows, np.arange(6.0) * 100, atol=2.0)
