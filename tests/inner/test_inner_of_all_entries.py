"""The inner problem with zeros at all entries against dense systems, and its derivatives against differences."""

import numpy as np
import pytest

from rslm import Objective, Problem
from rslm.losses import Square
from rslm.measurements import AllEntries, Entries
from rslm.testing import check_gradient, check_hessian

C, ALPHA0 = 3.0, 0.2


def made(weighted, d=14, T=9, *, entry_weights=True, seed=0):
    """Column 1 is empty, column 2 is full, and row 3 has no entry but that one."""
    rng = np.random.default_rng(seed)
    Y = np.where(rng.random((d, T)) < 0.4, rng.uniform(0.5, 2.0, (d, T)), np.nan)
    Y[3], Y[:, 1], Y[:, 2] = np.nan, np.nan, 1.0
    omega = rng.uniform(0.5, 10.0, (d, T)) if entry_weights else np.ones((d, T))
    p, q = (rng.uniform(0.3, 2.0, n) if weighted else np.ones(n) for n in (d, T))
    given = {"row_weights": p, "column_weights": q} if weighted else {}
    data = AllEntries(Y, omega if entry_weights else None, alpha0=ALPHA0)
    return Problem(Square(), data, C=C, **given), Y, np.where(np.isnan(Y), 0.0, omega), p, q


def dense_answer(U, Y, omega, p, q):
    """g(U) and V by a dense system for every column."""
    X, V = U / np.sqrt(p)[:, None], []
    y = np.nan_to_num(Y)
    for t in range(Y.shape[1]):
        M = X.T @ (omega[:, [t]] * X) + ALPHA0 * X.T @ X + q[t] / (2 * C) * np.eye(X.shape[1])
        V.append(np.linalg.solve(M, X.T @ (omega[:, t] * y[:, t])))
    V = np.array(V)
    W = X @ V.T
    value = C * np.sum(omega * (y - W) ** 2) + C * ALPHA0 * np.sum(W**2) + 0.5 * np.sum(q[:, None] * V**2)
    return value, V


@pytest.mark.parametrize("rank", [1, 3, 8])
@pytest.mark.parametrize("entry_weights", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_systems_of_all_columns(rank, entry_weights, weighted):
    problem, *parts = made(weighted, entry_weights=entry_weights)
    U = np.random.default_rng(rank).standard_normal((14, rank))
    found, (value, V) = Objective(problem).evaluate(U), dense_answer(U, *parts)
    assert found.value == pytest.approx(value, rel=1e-12)  # sums of some hundred numbers
    np.testing.assert_allclose(found.V, V, rtol=1e-9, atol=1e-12)  # systems with condition numbers below 1e4


def test_a_rank_above_the_width_of_the_kernels():
    problem, *parts = made(False, d=150, T=140, entry_weights=True)
    U = np.random.default_rng(0).standard_normal((150, 132)) / 40
    objective = Objective(problem)
    found, (value, V) = objective.evaluate(U), dense_answer(U, *parts)
    assert found.value == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(found.V, V, rtol=1e-6, atol=1e-8)  # conjugate gradients instead of factors
    check_hessian(objective, U, directions=1)


@pytest.mark.parametrize("rank", [1, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_derivatives(rank, weighted):
    problem, *_ = made(weighted)
    U = np.random.default_rng(1).standard_normal((14, rank))
    check_gradient(Objective(problem), U)
    check_hessian(Objective(problem), U)


@pytest.mark.parametrize("entry_weights", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_rough_derivatives_are_in_single_precision(weighted, entry_weights, monkeypatch):
    problem, *_ = made(weighted, d=60, T=50, entry_weights=entry_weights)
    rng = np.random.default_rng(0)
    U, xi = rng.standard_normal((60, 5)), rng.standard_normal((60, 5))
    found = Objective(problem).evaluate(U)
    exact = found.hessian_product(xi)
    found.rough = True
    np.testing.assert_array_equal(found.hessian_product(xi), exact)  # the problem is too small to save time
    monkeypatch.setattr("rslm.inner.entries.weighted.MANY", 0)
    found.rough = True
    rough = found.hessian_product(xi)
    assert (rough != exact).any()
    # Rounding errors of 6e-8, and cancellation between sums over the entries of a column and the zeros.
    assert np.abs(rough - exact).max() <= 1e-5 * np.abs(exact).max()


def test_a_subspace_with_equal_and_zero_columns():
    """XᵀX is singular, so that its eigenvectors are not unique."""
    problem, *parts = made(True)
    U = np.random.default_rng(1).standard_normal((14, 4))
    U[:, 1], U[:, 2] = U[:, 0], 0.0
    objective = Objective(problem)
    assert objective.evaluate(U).value == pytest.approx(dense_answer(U, *parts)[0], rel=1e-12)
    check_gradient(objective, U)
    check_hessian(objective, U)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_preconditioner_is_the_inverse_of_a_block_per_row(weighted):
    problem, _, omega, p, _ = made(weighted)
    U = np.random.default_rng(1).standard_normal((14, 3))
    found, eta = Objective(problem).evaluate(U), np.random.default_rng(2).standard_normal((14, 3))
    V, shift = found.V, found.solution.weighted_square
    expected = [
        np.linalg.solve(2 * C / p[i] * (V.T @ (omega[i][:, None] * V) + ALPHA0 * V.T @ V) + shift * np.eye(3), eta[i])
        for i in range(14)
    ]
    np.testing.assert_allclose(found.preconditioner(eta), expected, rtol=1e-10)  # condition numbers below 1e4


def test_threads_change_no_bit():
    problem, *_ = made(True, d=300, T=400)
    U, xi = np.random.default_rng(1).standard_normal((2, 300, 5))
    one, two = (Objective(problem, n_threads=n).evaluate(U) for n in (1, 3))
    assert one.value == two.value
    np.testing.assert_array_equal(one.gradient, two.gradient)
    np.testing.assert_array_equal(one.hessian_product(xi), two.hessian_product(xi))
    np.testing.assert_array_equal(one.preconditioner(xi), two.preconditioner(xi))


def test_the_value_tends_to_that_of_the_observed_entries():
    _, Y, *_ = made(False)
    U = np.random.default_rng(1).standard_normal((14, 3))
    alone = Objective(Problem(Square(), Entries(Y), C=C)).evaluate(U)
    nearly = Objective(Problem(Square(), AllEntries(Y, alpha0=1e-12), C=C)).evaluate(U)
    assert nearly.value == pytest.approx(alone.value, rel=1e-9)  # zeros of total weight 1e-12 · 14 · 9


def test_a_released_evaluation_says_so():
    found = Objective(made(False)[0]).evaluate(np.ones((14, 2)))
    found.release()
    with pytest.raises(RuntimeError, match="released"):
        found.hessian_product(np.ones((14, 2)))
