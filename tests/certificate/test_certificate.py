"""The certificate against an independent solver of the convex problem, and σ₁ against dense singular values."""

from dataclasses import replace
from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence

from rslm import Objective, Problem, solve
from rslm.certificate import certify
from rslm.evaluation.dual import Duals, largest_singular_value_squared
from rslm.linalg import spectrum
from rslm.linalg.low_rank import nuclear_norm
from rslm.losses import Square
from rslm.measurements import Entries

D, T = 7, 9
SIZES = [0.02, 5.0, 200.0]  # of C: the optimal rank is 1, 4, and 5 or 6
ORACLE = 1e-7  # relative accuracy of the other solver's optimum


def observed(d=D, T=T, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((d, 3)) @ rng.standard_normal((3, T)) + 0.3 * rng.standard_normal((d, T))
    Y[rng.random((d, T)) < 0.35] = np.nan
    return Y


@cache
def problem(C, weighted, d=D, T=T):
    rng = np.random.default_rng(1)
    weights = {"row_weights": rng.uniform(0.3, 2, d), "column_weights": rng.uniform(0.3, 2, T)} if weighted else {}
    return Problem(Square(), Entries(observed(d, T)), C=C, **weights)


def roots(p):
    ones = np.ones(p.shape[0]), np.ones(p.shape[1])
    weights = p.row_weights, p.column_weights
    return tuple(np.sqrt(o if w is None else w) for w, o in zip(weights, ones, strict=True))


@cache
def optimum(C, weighted):
    """min C Σ(y − w)² + ½‖diag(√p) W diag(√q)‖_*²"""
    p, Y = problem(C, weighted), observed()
    rows, cols = roots(p)
    W = cp.Variable((D, T))
    known = np.argwhere(~np.isnan(Y))
    fit = cp.sum_squares(W[known[:, 0], known[:, 1]] - Y[~np.isnan(Y)])
    norm = cp.normNuc(cp.diag(rows) @ W @ cp.diag(cols))
    task = cp.Problem(cp.Minimize(C * fit + 0.5 * cp.square(norm)))
    tight = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
    return float(task.solve(solver=cp.CLARABEL, **tight))


def random_point(rank, seed=0, d=D):
    U = np.random.default_rng(seed).standard_normal((d, rank))
    return U / np.linalg.norm(U)


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def weighted(request):
    return request.param


@pytest.fixture(params=SIZES)
def C(request):
    return request.param


def check_bounds(c, best):
    margin = ORACLE * best
    assert c.dual <= best + margin
    assert best <= c.primal + margin
    assert c.gap >= c.primal - best - margin  # never below the true suboptimality
    assert c.gap == pytest.approx(c.primal - c.dual, abs=1e-12 * c.primal)
    assert c.relative_gap == pytest.approx(c.gap / c.dual, rel=1e-12)
    assert 0 <= c.scaling <= 1


@pytest.mark.parametrize("rank", [1, 2, 4, D])
def test_bounds_at_random_points(C, weighted, rank):
    p = problem(C, weighted)
    for seed in range(5):
        e = Objective(p).evaluate(random_point(rank, seed))
        check_bounds(certify(p, e, 1e-6, False), optimum(C, weighted))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_bounds_where_the_rank_is_limited(C, weighted, rank):
    result = solve(problem(C, weighted), rank, tol=1e-9, random_state=0)
    check_bounds(result.certificate, optimum(C, weighted))


@pytest.mark.parametrize("max_iter", [0, 1, 3])
def test_bounds_before_convergence(C, weighted, max_iter):
    result = solve(problem(C, weighted), 4, max_iter=max_iter, random_state=0)
    check_bounds(result.certificate, optimum(C, weighted))


@pytest.mark.parametrize("solver", ["trust-region", "conjugate-gradient"])
def test_full_rank_is_the_convex_optimum(C, weighted, solver):
    result = solve(problem(C, weighted), D, solver=solver, tol=1e-9, max_iter=1000, random_state=0)
    check_bounds(result.certificate, optimum(C, weighted))
    assert result.certificate.primal == pytest.approx(optimum(C, weighted), rel=1e-6)
    assert result.certificate.relative_gap < 1e-6


def test_small_c_is_certified_at_low_rank(weighted):
    result = solve(problem(0.02, weighted), 3, tol=1e-8, random_state=0)
    assert result.outcome.value == "certified"
    assert result.certificate.relative_gap <= 1e-8
    assert result.certificate.verdict.startswith("Global optimum")


def test_the_primal_is_the_objective_of_the_learned_matrix(C, weighted):
    p = problem(C, weighted)
    result = solve(p, 2, max_iter=2, random_state=0)
    W, Y = result.left @ result.V.T, observed()
    rows, cols = roots(p)
    norm = np.linalg.svd(rows[:, None] * W * cols, compute_uv=False).sum()
    expected = C * np.nansum((Y - W) ** 2) + 0.5 * norm**2
    assert result.certificate.primal == pytest.approx(expected, rel=1e-12)
    assert result.certificate.primal <= result.value * (1 + 1e-12)  # g bounds the trace norm by ½(1 + ‖V‖²)


def at_zero(p, V=None):
    """Not an inner optimum: the dual variables are zero."""
    e = Objective(p).evaluate(random_point(2))
    V = np.zeros((T, 2)) if V is None else V
    e.solution.V, e.solution.dual = V, lambda: np.zeros(len(p.data))
    return e


def test_the_gap_is_large_at_zero(C, weighted):
    p = problem(C, weighted)
    c = certify(p, at_zero(p), 1e-6, True)
    everything = C * np.nansum(observed() ** 2)
    assert c.sigma_max == 0
    assert c.dual == 0
    assert c.primal == pytest.approx(everything, rel=1e-12)
    assert c.gap == c.primal
    assert c.gap >= everything - optimum(C, weighted)
    assert c.relative_gap == np.inf
    assert not c.verdict.startswith("Global")


def test_the_gap_is_large_with_a_good_matrix_and_no_dual(C, weighted):
    """What ½(σ₁² − ‖UᵀS‖²) would call optimal."""
    p = problem(C, weighted)
    c = certify(p, at_zero(p, Objective(p).evaluate(random_point(2)).V), 1e-6, True)
    assert c.gap >= optimum(C, weighted) > 0


def test_no_scaling_of_the_dual_is_better():
    p = problem(0.5, True)
    e = Objective(p).evaluate(random_point(2))
    c = certify(p, e, 1e-6, False)
    z, y = e.dual(), p.data.values

    def dual(alpha):
        s = -alpha * z / p.C
        return -p.C * np.sum(s**2 / 4 + s * y) - 0.5 * alpha**2 * c.sigma_max**2

    assert c.dual == pytest.approx(dual(c.scaling), rel=1e-12)
    assert c.dual >= max(dual(a) for a in np.linspace(0, 1.5, 1501)) * (1 - 1e-12)
    assert 0 < c.scaling < 0.9  # this point is far from optimal, or the test would say nothing


# ---- σ₁ -----------------------------------------------------------------------------------------------------


def dense_sigma(p, z):
    S = np.zeros((p.shape[1], p.shape[0]))
    S[~np.isnan(observed(*p.shape)).T] = z
    rows, cols = roots(p)
    return np.linalg.svd(S / cols[:, None] / rows, compute_uv=False)


BRANCHES = {"dense": (10**6, "dense"), "lanczos": (0, "Lanczos")}


@pytest.mark.parametrize("branch", BRANCHES)
@pytest.mark.parametrize("size", [(7, 9), (30, 20), (90, 110)])
def test_sigma_is_never_too_small(monkeypatch, weighted, branch, size):
    limit, word = BRANCHES[branch]
    monkeypatch.setattr(spectrum, "DENSE", limit)
    p = problem(0.5, weighted, *size)
    points = [random_point(3, seed, size[0]) for seed in range(3)] + [solve(p, 2, random_state=0).U]
    for U in points:
        z = Objective(p).evaluate(U).dual()
        square, method = largest_singular_value_squared(Duals(p, z, 1), U)
        true = dense_sigma(p, z)[0] ** 2
        assert square >= true * (1 - 1e-13)  # rounding of the products
        assert square <= true * (1 + 1e-9)
        assert method.startswith(word)


def test_sigma_of_a_start_that_is_orthogonal_to_the_wanted_vector(monkeypatch):
    """Two blocks; U lies in the weaker one."""
    monkeypatch.setattr(spectrum, "DENSE", 0)
    Y = np.full((80, 80), np.nan)
    Y[:40, :40], Y[40:, 40:] = 1.0, 1.01
    p = Problem(Square(), Entries(Y), C=1.0)
    U = np.zeros((80, 1))
    U[:40] = 40**-0.5
    z = Entries(Y).values
    square, _ = largest_singular_value_squared(Duals(p, z, 1), U)
    assert square == pytest.approx((1.01 * 40) ** 2, rel=1e-9)


def test_sigma_where_the_first_column_of_u_is_zero(monkeypatch, weighted):
    monkeypatch.setattr(spectrum, "DENSE", 0)
    p = problem(0.02, weighted)
    U = np.column_stack([np.zeros(D), solve(p, 3, tol=1e-9, random_state=0).U])
    c = certify(p, Objective(p).evaluate(U), 1e-6, True)
    assert c.relative_gap < 1e-8
    assert c.method.startswith("Lanczos")


def test_the_bound_when_lanczos_fails(monkeypatch, weighted):
    def failing(*_, **__):
        raise ArpackError(-9)

    monkeypatch.setattr(spectrum, "DENSE", 0)
    monkeypatch.setattr(spectrum, "eigsh", failing)
    p = problem(0.5, weighted)
    z = np.zeros(len(p.data))
    # All in the entry whose weights are smallest: there the bound is tight.
    weights = np.outer(*roots(p)).T[~np.isnan(observed()).T]
    z[np.argmin(weights)] = 1.0
    square, method = largest_singular_value_squared(Duals(p, z, 1), random_point(2))
    assert square >= dense_sigma(p, z)[0] ** 2 * (1 - 1e-13)
    assert "Frobenius" in method


def test_the_bound_without_convergence(monkeypatch, weighted):
    """Then one long Krylov space is used."""

    def failing(*_, **__):
        raise ArpackNoConvergence("no convergence", np.empty(0), np.empty(0))

    monkeypatch.setattr(spectrum, "DENSE", 0)
    monkeypatch.setattr(spectrum, "eigsh", failing)
    p = problem(0.5, weighted)
    z = np.random.default_rng(0).standard_normal(len(p.data))
    square, method = largest_singular_value_squared(Duals(p, z, 1), random_point(2))
    assert square == pytest.approx(dense_sigma(p, z)[0] ** 2, rel=1e-9)
    assert method.startswith("Lanczos")


def test_single_precision_dual_is_a_bound_too(weighted):
    """Its z is rounded once and exact from there on, so σ₁ must be that of the rounded z."""
    double = problem(0.5, weighted)
    p = Problem(
        Square(),
        Entries(observed().astype(np.float32)),
        C=0.5,
        row_weights=double.row_weights,
        column_weights=double.column_weights,
    )
    for seed in range(20):
        U = random_point(3, seed)
        z = Objective(p).evaluate(U).dual()
        square, _ = largest_singular_value_squared(Duals(p, z, 1), U)
        # The weights are divided out in single precision, 6e-8 for a number; the default tolerance is 1e-6.
        assert square == pytest.approx(dense_sigma(double, z.astype(float))[0] ** 2, rel=2e-7)


def test_nuclear_norm():
    U, V = random_point(3), np.random.default_rng(1).standard_normal((T, 3))
    assert nuclear_norm(U, V) == pytest.approx(np.linalg.svd(U @ V.T, compute_uv=False).sum(), rel=1e-13)
    deficient = np.column_stack([U[:, :1], U[:, :1], 0 * U[:, :1]])
    assert nuclear_norm(deficient, V) == pytest.approx(np.linalg.norm(deficient @ V.T), rel=1e-13)


# ---- words --------------------------------------------------------------------------------------------------


def test_three_verdicts():
    p = problem(200.0, False)
    certified = str(solve(problem(0.02, False), 3, random_state=0).certificate)
    stationary = str(solve(p, 1, random_state=0).certificate)
    unfinished = str(solve(p, 1, max_iter=0, random_state=0).certificate)
    assert certified.startswith("Global optimum of the convex problem")
    assert stationary.startswith("Stationary with a rank of at most 1: no small change within this limit improves it. ")
    assert unfinished.startswith("Not converged")
    for text in (certified, stationary, unfinished):
        assert "primal " in text
        assert "dual " in text
        assert "σ₁ = " in text
        assert "dense eigenvalues" in text


def test_a_bound_that_says_nothing_is_called_so():
    """A relative gap of 2 is no news; one of 0.1 is, with the number."""
    some = solve(problem(0.5, False), 1, random_state=0).certificate
    near = replace(some, primal=110.0, dual=100.0, gap=10.0, relative_gap=0.1, stationary=True)
    assert "the limit on the rank costs at most 10 (relative gap 0.1)" in near.verdict
    assert "says nothing" not in near.verdict
    for stationary in (True, False):
        far = replace(near, primal=300.0, gap=200.0, relative_gap=2.0, stationary=stationary)
        assert "the bound says nothing here (relative gap 2): a smaller C or a larger rank" in far.verdict
        assert "cost" not in far.verdict
        assert "primal 300, dual 100, gap 200" in str(far)  # the numbers stay
    none = replace(near, gap=np.inf, relative_gap=np.inf, method="not computed: there was no time left")
    assert none.verdict.endswith("is not computed: there was no time left.")


def test_scaled():
    c = solve(problem(0.5, False), 1, random_state=0).certificate
    four = c.scaled(2.0)
    assert (four.primal, four.dual, four.gap) == (4 * c.primal, 4 * c.dual, 4 * c.gap)
    assert four.sigma_max == 2 * c.sigma_max
    assert (four.relative_gap, four.scaling, four.method) == (c.relative_gap, c.scaling, c.method)
    assert c.scaled(1.0) is c
