"""Problems and fits of ranks above those of the compiled widths.

U of rank 100 with columns of zeros added, and all of them rotated, is the same problem at a higher rank. The kernels
for rank 100 are others, so they say what the result should be.
"""

import numpy as np
import pytest

from plain import plain_completion
from rslm import Objective, Problem, solve
from rslm.location import Location
from rslm.losses import Absolute, Hinge, Huber, Logistic, Quantile, Square
from rslm.measurements import Entries, Tasks
from rslm.structures import Box, SoftBox

LOW, HIGH = 100, 140


def observed(classes=False, d=150, T=160, share=0.4, seed=0):
    """Columns with about 60 entries, one without any, one with a single entry, and one with all."""
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((d, 5)) @ rng.standard_normal((5, T)) / np.sqrt(5) + 0.1 * rng.standard_normal((d, T))
    Y = np.where(Y > 0, 1.0, -1.0) if classes else Y
    hidden = rng.random((d, T)) > share
    hidden[:, 3], hidden[:, 5], hidden[:, 7] = True, True, False
    hidden[0, 5] = False
    return np.where(hidden, np.nan, Y)


def tasks(T=40, d=150, seed=0):
    rng = np.random.default_rng(seed)
    X, of = rng.standard_normal((500, d)), np.arange(500) % T
    return Tasks(X, X[:, 0] + rng.standard_normal(500), of)


PROBLEMS = {
    "square": lambda: Problem(Square(), Entries(observed()), C=50.0),
    "square, large C": lambda: Problem(Square(), Entries(observed()), C=1e5),
    "square, small C": lambda: Problem(Square(), Entries(observed()), C=0.5),
    "Huber": lambda: Problem(Huber(0.5), Entries(observed()), C=50.0),
    "logistic": lambda: Problem(Logistic(), Entries(observed(classes=True)), C=50.0),
    "absolute": lambda: Problem(Absolute(), Entries(observed()), C=5.0),
    "hinge": lambda: Problem(Hinge(), Entries(observed(classes=True)), C=5.0),
    "quantile": lambda: Problem(Quantile(0.3), Entries(observed()), C=5.0),
    "soft bounds": lambda: Problem(Square(), Entries(observed()), SoftBox(Box(-0.3, 0.3), 1e-2), C=50.0),
    "bounds": lambda: Problem(Square(), Entries(observed()), Box(-2.0, 2.0), C=50.0),
    "soft bounds, Huber": lambda: Problem(Huber(0.5), Entries(observed()), SoftBox(Box(-0.3, 0.3), 1e-2), C=50.0),
    "tasks": lambda: Problem(Square(), tasks(), C=5.0),
}
SMOOTH = [name for name in PROBLEMS if name not in ("absolute", "hinge", "quantile", "bounds")]


def points(d, seed=1):
    """U and a direction of rank LOW, and the same of rank HIGH, with the rotation."""
    rng = np.random.default_rng(seed)
    U, xi = rng.standard_normal((2, d, LOW))
    U /= np.linalg.norm(U)
    Q = np.linalg.qr(rng.standard_normal((HIGH, HIGH)))[0][:LOW]
    return U, xi / np.linalg.norm(xi), Q


def close(a, b, tol):
    assert np.linalg.norm(a - b) <= tol * np.linalg.norm(b)


@pytest.mark.parametrize("name", PROBLEMS)
def test_columns_of_zeros_and_a_rotation_change_nothing(name):
    problem = PROBLEMS[name]()
    U, xi, Q = points(problem.shape[0])
    low, high = (Objective(problem, n_threads=2).evaluate(at) for at in (U, U @ Q))
    # Losses with kinks are solved to a duality gap, so that V is less accurate than the value.
    tol = 1e-9 if name in SMOOTH else 1e-5
    assert high.value == pytest.approx(low.value, rel=1e-9)
    close(high.V, low.V @ Q, tol)
    close(high.gradient, low.gradient @ Q, tol)
    if name in SMOOTH:
        close(high.hessian_product(xi @ Q), low.hessian_product(xi) @ Q, 1e-8)
    eta = high.preconditioner(high.gradient)
    assert np.vdot(eta, high.gradient) > 0


@pytest.mark.parametrize("location", [Location(mean=True, rows=0.7, columns=0.5), Location(mean=True, columns=0.0)])
@pytest.mark.parametrize("loss", [Square(), Huber(0.5)], ids=repr)
def test_with_a_location(loss, location):
    problem = Problem(loss, Entries(observed()), C=50.0, location=location)
    U, _, Q = points(problem.shape[0])
    low, high = (Objective(problem, n_threads=2) for _ in range(2))
    one, other = low.evaluate(low.point(U)), high.evaluate(high.point(U @ Q))
    assert other.value == pytest.approx(one.value, rel=1e-9)
    close(other.V, one.V @ Q, 1e-8)


@pytest.mark.parametrize("name", ["square", "logistic", "tasks"])
def test_derivatives_against_differences(name):
    problem, step = PROBLEMS[name](), 1e-5
    U, xi, Q = points(problem.shape[0])
    objective = Objective(problem, n_threads=2)
    here, ahead, behind = (objective.evaluate((U + h * xi) @ Q) for h in (0.0, step, -step))
    assert (ahead.value - behind.value) / (2 * step) == pytest.approx(np.vdot(here.gradient, xi @ Q), rel=1e-6)
    close(here.hessian_product(xi @ Q), (ahead.gradient - behind.gradient) / (2 * step), 1e-5)


@pytest.mark.parametrize("solver", ["trust-region", "conjugate-gradient"])
def test_a_fit_is_certified(solver):
    Y = observed(d=160)
    Y[1, 3] = 0.0  # an entry of the column that has none
    m = plain_completion(150, 5.0, solver=solver, tol=1e-6, random_state=0).fit(Y)
    assert m.converged_
    assert m.row_factors_.shape[1] == 150
    assert m.certificate_.gap <= 1e-4 * m.certificate_.primal
    assert np.isfinite(m.predict(np.arange(10), np.arange(10))).all()


def test_the_certified_optimum_is_that_of_a_sufficient_rank():
    """At this C the optimum has a rank far below either, so both find the same."""
    problem = Problem(Square(), Entries(observed()), C=0.5)
    one, other = (solve(problem, rank, random_state=0) for rank in (60, 145))
    assert (one.U.shape[1], other.U.shape[1]) == (60, 145)
    assert other.certificate.primal == pytest.approx(one.certificate.primal, rel=1e-5)


def test_a_fit_of_tasks():
    problem = Problem(Square(), tasks(T=132), C=0.1)
    low, high = (solve(problem, rank, random_state=0) for rank in (20, 131))
    assert high.U.shape[1] == 131
    assert high.certificate.gap <= 1e-4 * high.certificate.primal
    assert high.certificate.primal <= low.certificate.primal * (1 + 1e-6)
