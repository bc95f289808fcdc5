"""The dual variables and the certificate with zeros at all entries, against dense matrices and CVXPY."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest

from rslm import Objective, Problem, solve
from rslm.certificate import certify
from rslm.losses import Square
from rslm.measurements import AllEntries

D, T = 7, 9
ORACLE = 1e-7  # relative accuracy of the other solver's optimum


def parts(weighted):
    rng = np.random.default_rng(0)
    Y = np.where(rng.random((D, T)) < 0.4, rng.uniform(0.5, 2.0, (D, T)), np.nan)
    omega = rng.uniform(0.5, 10.0, (D, T))
    p, q = (rng.uniform(0.3, 2.0, n) if weighted else np.ones(n) for n in (D, T))
    return Y, omega, p, q


@cache
def made(C, alpha0, weighted):
    Y, omega, p, q = parts(weighted)
    given = {"row_weights": p, "column_weights": q} if weighted else {}
    return Problem(Square(), AllEntries(Y, omega, alpha0=alpha0), C=C, **given)


@cache
def optimum(C, alpha0, weighted):
    """min C Σ_Ω ω(y − w)² + C α₀ Σ w² + ½‖diag(√p) W diag(√q)‖_*²"""
    Y, omega, p, q = parts(weighted)
    W, known = cp.Variable((D, T)), ~np.isnan(Y)
    fit = cp.sum(cp.multiply(omega[known], cp.square(W[known] - Y[known]))) + alpha0 * cp.sum_squares(W)
    norm = cp.normNuc(cp.diag(np.sqrt(p)) @ W @ cp.diag(np.sqrt(q)))
    task = cp.Problem(cp.Minimize(C * fit + 0.5 * cp.square(norm)))
    tight = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
    return float(task.solve(solver=cp.CLARABEL, **tight))


CASES = [
    (5.0, 1e-9, False),
    (0.02, 0.05, True),
    (0.5, 1.0, False),
    (5.0, 0.05, False),
    (5.0, 1.0, True),
    (200.0, 0.05, True),
]


@pytest.mark.parametrize(("C", "alpha0", "weighted"), CASES)
def test_certified_at_full_rank(C, alpha0, weighted):
    best = optimum(C, alpha0, weighted)
    found = solve(made(C, alpha0, weighted), D, tol=1e-8, random_state=0)
    assert found.outcome.value == "certified"
    assert found.certificate.relative_gap <= 1e-8
    assert found.certificate.primal == pytest.approx(best, rel=ORACLE)
    assert found.value == pytest.approx(best, rel=ORACLE)


@pytest.mark.parametrize(("C", "alpha0", "weighted"), CASES)
def test_bounds_at_any_point_and_rank(C, alpha0, weighted):
    best, problem = optimum(C, alpha0, weighted), made(C, alpha0, weighted)
    U = np.random.default_rng(1).standard_normal((D, 2))
    anywhere = certify(problem, Objective(problem).evaluate(U / np.linalg.norm(U)), 1e-6, False)
    for certificate in (anywhere, solve(problem, 2, random_state=0).certificate):
        assert 0 < certificate.dual <= best * (1 + ORACLE)
        assert best * (1 - ORACLE) <= certificate.primal


@pytest.mark.parametrize("weighted", [False, True])
def test_the_sums_over_dual_variables_are_those_of_the_dense_matrix(weighted):
    C, alpha0 = 5.0, 0.3
    problem, (Y, omega, p, q) = made(C, alpha0, weighted), parts(weighted)
    U = np.random.default_rng(1).standard_normal((D, 3))
    found = Objective(problem).evaluate(U / np.linalg.norm(U))
    duals, W = found.duals(problem), (found.U * problem.row_scale) @ found.V.T
    omega, y = np.where(np.isnan(Y), 0.0, omega), np.nan_to_num(Y)
    s = 2 * C * omega * (y - W) - 2 * C * alpha0 * W
    S = s / np.sqrt(p)[:, None] / np.sqrt(q)
    X = np.random.default_rng(2).standard_normal((D, 4))
    np.testing.assert_allclose(duals.gram(X), S @ (S.T @ X), rtol=1e-10, atol=1e-10)  # sums of some dozen numbers
    assert duals.frobenius_squared() >= np.sum(S**2)
    assert duals.largest() >= np.abs(2 * C * omega * (y - W)).max() * (1 - 1e-12)  # rounding errors of w
    a, b, c = C * (omega + alpha0), C * omega * y, C * omega * y**2
    for alpha in (0.0, 0.4, 1.0):
        exact = -np.sum((2 * b - alpha * s) ** 2 / (4 * a) - c)
        assert duals.conjugate_part(alpha) == pytest.approx(exact, rel=1e-10)


def test_no_matrix_has_a_smaller_loss_than_the_least():
    problem, (Y, omega, *_) = made(5.0, 0.3, False), parts(False)
    known = ~np.isnan(Y)
    w = (omega * Y / (omega + 0.3))[known]
    least = 5.0 * np.sum(omega[known] * (Y[known] - w) ** 2 + 0.3 * w**2)
    found = Objective(problem).evaluate(np.ones((D, 1)) / np.sqrt(D))
    assert found.least_loss(problem) == pytest.approx(least, rel=1e-12)


def test_the_answer_of_an_ended_fit_counts_the_zeros():
    found = solve(made(5.0, 0.3, False), 2, callback=lambda progress: True)
    assert found.outcome.value == "interrupted"
    assert found.certificate.primal >= optimum(5.0, 0.3, False) * (1 - ORACLE)


@pytest.mark.parametrize("solver", ["trust-region", "conjugate-gradient"])
def test_a_checkpoint_belongs_to_one_weight_of_zeros(tmp_path, solver):
    file = tmp_path / "fit.checkpoint"
    options = {"solver": solver, "random_state": 0, "checkpoint": file}
    first = solve(made(5.0, 0.05, False), 2, **options)
    again = solve(made(5.0, 0.05, False), 2, **options)
    np.testing.assert_array_equal(first.U, again.U)
    with pytest.raises(ValueError, match=r"weight of zeros: 0\.05 in the checkpoint, 1\.0 now"):
        solve(made(5.0, 1.0, False), 2, **options)
