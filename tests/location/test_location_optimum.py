"""Problems with a location against CVXPY: the objective, its lower bound, and what the certificate says of both."""

import numpy as np
import pytest
from location_oracle import objective, optimum, predictions
from locations import LOCATIONS, table

from rslm import Problem, solve
from rslm.evaluation import feasible
from rslm.location import Location
from rslm.losses import Absolute, EpsilonInsensitive, Hinge, Huber, Logistic, Quantile, Square
from rslm.measurements import Entries, Tasks
from rslm.structures import Box

D, T = 6, 5
# The solver stops at a relative gap of 1e-6, of which the primal value is a part; CVXPY is accurate to about 1e-8.
GAP, ACCURATE = 1.1e-6, 1e-7


def values(loss, seed=0):
    rng = np.random.default_rng(seed)
    Y = table(rng, D, T)
    if loss.binary:  # no row and no column is all of one sign, and effects alone do not separate them
        Y = np.where((np.add.outer(np.arange(D), np.arange(T)) + (rng.random((D, T)) < 0.15)) % 2 > 0, 1.0, -1.0)
    return np.where(rng.random((D, T)) < 0.2, np.nan, Y)


def weighted(data, seed=1):
    """The same data with weights of the observations."""
    data.weights = np.random.default_rng(seed).uniform(0.5, 2.0, len(data))
    return data


def entries_problem(loss, location, structure=None, weights=True, C=0.8):
    rng, data = np.random.default_rng(2), Entries(values(loss))
    if not weights:
        return Problem(loss, data, structure, location=location, C=C)
    p, q = rng.uniform(0.5, 2.0, D), rng.uniform(0.5, 2.0, T)
    return Problem(loss, weighted(data), structure, location=location, C=C, row_weights=p, column_weights=q)


def check(problem, gap=GAP, **how):
    result = solve(problem, min(problem.shape), random_state=0, n_threads=1, **how)
    best, certificate = optimum(problem), result.certificate
    assert certificate.primal == pytest.approx(objective(problem, result), rel=1e-9)
    assert -ACCURATE * abs(best) <= certificate.primal - best <= gap * abs(best)
    assert certificate.dual <= best + ACCURATE * abs(best)
    assert certificate.relative_gap <= gap
    box = problem.structure.box
    if box is not None:
        W = predictions(result)
        lower, upper = box.planes(W.shape)
        assert (lower - W).max() <= 1e-9 * np.abs(W).max()
        assert (W - upper).max() <= 1e-9 * np.abs(W).max()
    return result


@pytest.mark.parametrize("weights", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("bounds", [False, True], ids=["free", "bounds"])
@pytest.mark.parametrize("location", ["mean", "all", "rows free", "both free", "columns"])
@pytest.mark.parametrize("loss", [Square(), Huber(0.5), Logistic()], ids=["square", "huber", "logistic"])
def test_entries(loss, location, bounds, weights):
    box = (Box(-0.2, 0.3) if loss.binary else Box(0.5, 5.0)) if bounds else None
    result = check(entries_problem(loss, LOCATIONS[location], box, weights))
    assert result.converged
    parts = LOCATIONS[location]
    assert result.effects is not None
    assert result.effects.rows.any() == (parts.rows is not None)
    assert result.effects.columns.any() == (parts.columns is not None)


def tasks_problem(loss, location, weights, shared=False, seed=3):
    rng = np.random.default_rng(seed)
    n, d, T = 40, 4, 5
    X, of = rng.standard_normal((n, d)), np.concatenate([np.arange(T), rng.integers(0, T, n - T)])
    y = X @ np.array([1.0, 2.0, 0.0, 0.5]) + rng.standard_normal(T)[of] + 5.0 + rng.standard_normal(n)
    if loss.binary:
        y = np.where(y - 5.0 + 2.0 * rng.standard_normal(n) > 0, 1.0, -1.0)
    if shared:
        Y = np.where(rng.random((n, T)) < 0.6, y[:, None] + rng.standard_normal((1, T)), np.nan)
        data = Tasks.shared(X, Y)
    else:
        data = Tasks(X, y, of)
    q = rng.uniform(0.5, 2.0, T) if weights else None
    return Problem(loss, weighted(data) if weights else data, location=location, C=0.3, column_weights=q)


@pytest.mark.parametrize("weights", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("location", ["all", "columns free", "both free", "rows"])
@pytest.mark.parametrize("loss", [Square(), Huber(0.5), Logistic()], ids=["square", "huber", "logistic"])
def test_tasks(loss, location, weights):
    assert check(tasks_problem(loss, LOCATIONS[location], weights)).converged


@pytest.mark.parametrize("loss", [Square(), Huber(0.5)], ids=["square", "huber"])
def test_tasks_that_share_their_rows(loss):
    assert check(tasks_problem(loss, LOCATIONS["all"], False, shared=True)).converged


@pytest.mark.parametrize("weights", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("loss", [Square(), Huber(0.5), Logistic()], ids=["square", "huber", "logistic"])
def test_covariates(loss, weights):
    data = Entries(values(loss))
    X = np.random.default_rng(5).standard_normal((len(data), 2)) * [1.0, 100.0]  # in units of their own
    for location in (Location(True, 0.7, 0.5, X), Location(False, covariates=X), Location(True, 0.0, 0.0, X)):
        problem = Problem(loss, weighted(data) if weights else data, location=location, C=0.8)
        result = check(problem)
        assert result.converged
        assert result.effects.coefficients.shape == (2,)


@pytest.mark.parametrize("loss", [Square(), Huber(0.5)], ids=["square", "huber"])
def test_covariates_of_tasks(loss):
    data = tasks_problem(loss, Location(), True).data
    X = np.random.default_rng(5).standard_normal((len(data), 2))
    assert check(Problem(loss, data, location=Location(True, 0.7, 0.5, X), C=0.3)).converged


@pytest.mark.parametrize("bounds", [False, True], ids=["free", "bounds"])
@pytest.mark.parametrize("location", ["all", "both free"])
def test_conjugate_gradient(location, bounds):
    problem = entries_problem(Square(), LOCATIONS[location], Box(0.5, 5.0) if bounds else None)
    assert check(problem, solver="conjugate-gradient", max_iter=3000).converged


@pytest.mark.parametrize(
    ("loss", "location"),
    [
        (Absolute(), "all"),
        (Absolute(), "rows free"),
        (Quantile(0.3), "all"),
        (EpsilonInsensitive(0.2), "all"),
        (Hinge(), "mean"),
    ],
    ids=repr,
)
def test_losses_with_kinks(loss, location):
    """Rounded in stages; the certificate is that of the loss with its kinks."""
    check(entries_problem(loss, LOCATIONS[location]), gap=1e-5)


def test_kinks_within_bounds():
    check(entries_problem(Hinge(), LOCATIONS["all"], Box(-0.5, 0.8)), gap=1e-5)


def test_rows_of_one_class_have_no_part_in_the_certificate():
    """Their effects without penalty have no optimum: they grow, and their losses vanish."""
    Y = values(Logistic())
    Y[2] = np.where(np.isnan(Y[2]), np.nan, 1.0)
    Y[4] = np.where(np.isnan(Y[4]), np.nan, -1.0)
    Y[:, 3] = [1.0, 1.0, 1.0, 1.0, -1.0, np.nan]  # of one class as soon as the fifth row is left out
    for location in (LOCATIONS["rows free"], LOCATIONS["both free"]):
        result = check(Problem(Logistic(), weighted(Entries(Y)), location=location, C=0.8))
        assert result.effects.rows[2] > 5.0


def test_dual_variables_that_stay_infeasible_say_nothing(monkeypatch):
    """A certificate must hold also where the correction of the dual variables fails."""
    monkeypatch.setattr(feasible, "MOST", 0)
    problem = entries_problem(Huber(0.5), LOCATIONS["both free"])
    result = solve(problem, min(problem.shape), random_state=0, n_threads=1, max_iter=3)
    assert result.certificate.dual == 0.0
    assert result.certificate.primal >= optimum(problem) * (1 - ACCURATE)


@pytest.mark.parametrize("bounds", [(0.5, None), (None, 4.0), ("rows", 5.0), (0.5, "columns"), ("both", "both")])
def test_other_bounds(bounds):
    rng = np.random.default_rng(8)
    arrays = {"rows": rng.uniform(0.0, 2.0, (D, 1)), "columns": rng.uniform(4.0, 5.0, T)}
    lower, upper = (arrays.get(b, b) if isinstance(b, str) else b for b in bounds)
    if bounds == ("both", "both"):
        lower = rng.uniform(0.0, 2.0, (D, T))
        upper = lower + rng.uniform(1.0, 3.0, (D, T))
    check(entries_problem(Square(), LOCATIONS["all"], Box(lower, upper)))
