"""Columns within bounds: the conditions of optimality, another solver, and warm starts that must not be seen."""

import cvxpy as cp
import numpy as np
import pytest

from rslm.kernels import Columns, bound, reference

inf = np.inf
# Gradients are sums of terms of about 1e2, and stiff bounds multiply rounding errors.
EXACT = 1e-9


def example(rows, columns, rank, seed=0):
    """Rows of which one is 0, one is tiny, two are the same and two almost parallel; all point forward."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, rank))
    X[:, 0] = np.abs(X[:, 0]) + 1.0
    if rows > 12:
        X[5], X[7], X[9], X[11] = 0.0, X[7] * 1e-6, X[8], 2 * X[10] * (1 + 1e-9)
    counts = rng.integers(0, min(rows, 8) + 1, columns)
    index = np.concatenate([rng.choice(rows, n, replace=False) for n in counts] + [np.empty(0)]).astype(np.int32)
    c = Columns(np.concatenate([[0], np.cumsum(counts)]), index, rows)
    return c, X, 3.0 * rng.standard_normal(len(index)), rng.uniform(0.05, 0.5, columns)


def planes(kind, rows, columns, seed=3):
    """Bounds with 0 or a multiple of the first column of X between them, so that there is a v within."""
    rng = np.random.default_rng(seed)
    lower, upper = {
        "not negative": (0.0, inf),
        "between": (-1.0, 2.0),
        "above": (-inf, 0.5),
        "by rows": (-rng.random((rows, 1)), inf),
        "by columns": (-rng.random((1, columns)), rng.random((1, columns)) + 0.5),
        "by entries": (-rng.random((rows, columns)), rng.random((rows, columns)) * 3),
    }[kind]
    return np.broadcast_to(lower, (rows, columns)), np.broadcast_to(upper, (rows, columns))


KINDS = ["not negative", "between", "above", "by rows", "by columns", "by entries"]


def dense(b, shape):
    S, columns = np.zeros(shape), np.repeat(np.arange(shape[1]), np.diff(b.entries.indptr))
    np.add.at(S, (b.entries.index, columns), b.s)
    return S


def check(b, c, X, centre, ridge, lower, upper, stiffness, tolerance=EXACT):
    M = reference.systems(c, X, ridge)
    S = dense(b, lower.shape)
    errors = reference.bound_conditions(X, centre, M, lower, upper, stiffness, b.V, S)
    scale = 1.0 + np.abs(S).max(initial=0.0)
    for error in errors:
        assert np.abs(error).max(initial=0.0) <= tolerance * scale


@pytest.mark.parametrize("stiffness", [0.3, 1e3, inf])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "columns", "rank"), [(40, 70, 4), (3, 5, 2), (1, 1, 1), (200, 33, 17), (30, 9, 30)])
def test_conditions_of_optimality(rows, columns, rank, kind, stiffness):
    c, X, y, ridge = example(rows, columns, rank)
    lower, upper = planes(kind, rows, columns)
    centre, factors = c.regress(y, X, ridge, 1)
    b = bound(X, centre, factors, lower, upper, stiffness, 1)
    assert not b.excess.any()
    check(b, c, X, centre, ridge, lower, upper, stiffness)
    if stiffness < inf:  # the factors are those of the systems with the bounds that push
        rhs = np.random.default_rng(1).standard_normal(b.V.shape)
        M = reference.systems(c, X, ridge) + reference.systems(b.entries, X, np.zeros(columns), b.weight)
        np.testing.assert_allclose(factors.solve(rhs, 1), np.linalg.solve(M, rhs[:, :, None])[:, :, 0], rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_against_another_solver(kind):
    c, X, y, ridge = example(12, 6, 3)  # without the rows that the other solver fails at
    lower, upper = planes(kind, 12, 6)
    centre, factors = c.regress(y, X, ridge, 1)
    b = bound(X, centre, factors, lower, upper, inf, 1)
    for t, M in enumerate(reference.systems(c, X, ridge)):
        v, inside = cp.Variable(3), []
        for sign, plane in ((1, lower), (-1, upper)):
            at = np.isfinite(plane[:, t])
            inside += [sign * (X[at] @ v) >= sign * plane[at, t]] if at.any() else []
        task = cp.Problem(cp.Minimize(cp.quad_form(v - centre[t], cp.psd_wrap(M))), inside)
        task.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        np.testing.assert_allclose(b.V[t], v.value, atol=1e-5)  # the accuracy of the other solver


@pytest.mark.parametrize("stiffness", [0.3, 30.0, inf])
@pytest.mark.parametrize("kind", KINDS)
def test_a_warm_start_changes_nothing(kind, stiffness):
    """Along a path of small and large steps: what is not looked at again must not have become violated."""
    rng = np.random.default_rng(2)
    c, X, y, ridge = example(60, 40, 4)
    X[7] *= 1e6  # of a tiny row what is within the tolerance of its bounds is not in any direction
    lower, upper = planes(kind, 60, 40)
    before = None
    for size in [1e-6, 1e-4, 1e-3, 1e-2, 0.1, 1e-4, 1e-3, 1e-3, 1e-3, 0.3, 1e-5, 1e-3] * 3:
        X = X + size * rng.standard_normal(X.shape) * np.linalg.norm(X, axis=1, keepdims=True)
        X[rng.integers(60)] *= rng.choice([0.1, 1.0, 10.0])
        X[:, 0] = np.abs(X[:, 0])
        centre, factors = c.regress(y, X, ridge, 1)
        before = bound(X, centre, factors, lower, upper, stiffness, 1, before)
        cold = bound(X, centre, c.regress(y, X, ridge, 1)[1], lower, upper, stiffness, 1)
        scale = np.abs(cold.V).max()
        np.testing.assert_allclose(before.V, cold.V, atol=1e-7 * scale)  # tiny rows make the problem ill-conditioned
        W = X @ before.V.T
        margin = np.where(dense(before, W.shape) != 0, inf, np.minimum(W - lower, upper - W))
        with np.errstate(divide="ignore", invalid="ignore"):
            margin = margin / np.linalg.norm(X, axis=1)[:, None]
        assert (before.margin <= np.nanmin(margin, axis=0) + 1e-9 * scale).all()


@pytest.mark.parametrize("stiffness", [1.0, inf])
def test_threads_make_no_difference(stiffness):
    c, X, y, ridge = example(900, 500, 6)
    lower, upper = planes("between", 900, 500)
    results = []
    for threads in (1, 2, 5):
        centre, factors = c.regress(y, X, ridge, 1)
        results.append(bound(X, centre, factors, lower, upper, stiffness, threads))
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].V, other.V)
        np.testing.assert_array_equal(results[0].s, other.s)
        np.testing.assert_array_equal(results[0].margin, other.margin)


def test_bounds_that_cannot_be_kept_are_told_by_column():
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    c = Columns(np.array([0, 1, 2, 3]), np.array([0, 1, 0]), 3)
    lower = np.array([[1.0, 1.0, -5.0], [1.0, -9.0, 1.0], [0.0, 0.0, 0.0]])
    centre, factors = c.regress(np.ones(3), X, np.ones(3), 1)
    b = bound(X, centre, factors, lower, np.full((3, 3), inf), inf, 1)
    assert (b.excess > 0).tolist() == [True, False, False]
    lower = np.array([[-9.0], [-9.0], [0.5]]) @ np.ones((1, 3))  # a row of zeros
    b = bound(X, centre, c.regress(np.ones(3), X, np.ones(3), 1)[1], lower, np.full((3, 3), inf), inf, 1)
    assert (b.excess >= 0.5).all()


@pytest.mark.parametrize("stiffness", [0.3, 50.0])
def test_shifted_bounds(stiffness):
    c, X, y, ridge = example(40, 30, 4)
    lower, upper = (p.copy() for p in planes("between", 40, 30))
    centre, factors = c.regress(y, X, ridge, 1)
    first = bound(X, centre, factors, lower, upper, stiffness, 1)
    by = np.random.default_rng(0).standard_normal(len(first.s))
    columns = np.repeat(np.arange(30), np.diff(first.entries.indptr))
    shifted = bound(X, centre, c.regress(y, X, ridge, 1)[1], lower, upper, stiffness, 1, first, (first.entries, by))
    lower[first.entries.index, columns] += by
    upper[first.entries.index, columns] += by
    check(shifted, c, X, centre, ridge, lower, upper, stiffness)


def test_too_many_entries_beyond():
    c, X, y, ridge = example(50, 300, 4)
    lower, upper = planes("not negative", 50, 300)
    centre, factors = c.regress(y, X, ridge, 1)
    many = int((X @ centre.T < 0).sum())
    for threads in (1, 2):
        b = bound(X, centre, factors, lower, upper, 1.0, threads, most=many // 10)
        assert np.isinf(b.excess).all()
        assert len(b.s) == 0
    assert not bound(X, centre, factors, lower, upper, 1.0, 1, most=20 * many).excess.any()


def test_halves_of_an_evaluation():
    c, X, y, ridge = example(40, 70, 5)
    solved = c.evaluate(y, X, ridge, 1)
    V, factors = c.regress(y, X, ridge, 1)
    np.testing.assert_array_equal(V, solved.V)
    np.testing.assert_array_equal(factors.data, solved.factors.data)
    squares, residual, by_rows = c.residuals(y, X, V, 1)
    np.testing.assert_allclose(squares, solved.squares, rtol=1e-14)
    # The halves add up products in another order than both together.
    np.testing.assert_allclose(residual, solved.residual, rtol=0, atol=1e-14 * np.abs(y).max())
    np.testing.assert_allclose(by_rows, solved.by_rows, rtol=0, atol=1e-13 * np.abs(by_rows).max())


@pytest.mark.parametrize("rank", [3, 17, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_factors_with_more_entries(rank, weighted):
    c, X, y, ridge = example(60, 20, rank)
    more, _, other, _ = example(60, 20, rank, seed=9)
    weight, rhs = (y**2 if weighted else None), np.random.default_rng(4).standard_normal((20, rank))
    M = reference.systems(c, X, ridge, weight) + reference.systems(more, X, np.zeros(20), other**2)
    factors = c.factorise(X, ridge, 1, weight, more=(more, other**2))
    np.testing.assert_allclose(factors.solve(rhs, 1), np.linalg.solve(M, rhs[:, :, None])[:, :, 0], rtol=1e-9)
