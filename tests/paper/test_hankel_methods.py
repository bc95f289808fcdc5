"""The baselines of Hankel matrix learning reach what CVXPY finds, and their paths the ranks asked for."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import approx_fprime

from hankel_baselines import htls, random_system
from paper.methods.hankel import dadm, gcg, rslm_hankel, slra
from paper.methods.hankel.products import adjoint, counts, matrix, singular_triplets, times
from rslm.runtime.types import Floats

WINDOW, LENGTH = 6, 13  # 6 × 8


@pytest.fixture
def y() -> Floats:
    rng = np.random.default_rng(0)
    t = np.arange(LENGTH)
    return np.asarray(0.9**t * np.cos(0.8 * t) + 0.6**t + 0.1 * rng.standard_normal(LENGTH))


def hankel(h: cp.Variable) -> cp.Expression:
    return cp.vstack([h[i : i + LENGTH - WINDOW + 1] for i in range(WINDOW)])


def projection() -> Floats:
    """Π as a matrix, of the matrices flattened by rows."""
    place = np.add.outer(np.arange(WINDOW), np.arange(LENGTH - WINDOW + 1)).ravel()
    same = (place[:, None] == place[None, :]).astype(np.float64)
    return np.asarray(same / same.sum(axis=1, keepdims=True))


def empty() -> tuple[Floats, Floats]:
    return np.zeros((WINDOW, 0)), np.zeros((LENGTH - WINDOW + 1, 0))


def test_products_are_those_of_the_matrix(y: Floats) -> None:
    rng = np.random.default_rng(1)
    U, V = rng.standard_normal((WINDOW, 3)), rng.standard_normal((LENGTH - WINDOW + 1, 3))
    H = matrix(y, WINDOW)
    assert H.shape == (WINDOW, LENGTH - WINDOW + 1)
    # FFTs of 13 numbers of size 1: errors of a few units in the last place.
    np.testing.assert_allclose(times(y, V), H @ V, atol=1e-12)
    np.testing.assert_allclose(times(y, U), H.T @ U, atol=1e-12)
    np.testing.assert_allclose(adjoint(U, V) @ y, np.sum(H * (U @ V.T)), atol=1e-12)
    np.testing.assert_allclose(counts(LENGTH, WINDOW) @ y**2, np.sum(H**2), atol=1e-12)
    # ARPACK works with the squares to 1e-4, so the values are as accurate.
    np.testing.assert_allclose(singular_triplets(y, WINDOW, 2)[1], np.linalg.svd(H)[1][:2], rtol=1e-4)


@pytest.mark.parametrize("mu", [0.02, 0.1])
def test_dadm_reaches_the_optimum(y: Floats, mu: float) -> None:
    h = cp.Variable(LENGTH)
    best = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(h - y) + mu * cp.normNuc(hankel(h)))).solve(solver=cp.CLARABEL)
    state = dadm.start(y, WINDOW, mu)
    first = dadm.objective(y, WINDOW, mu, y - state.sums)
    found = dadm.solve(y, WINDOW, mu, state, gap=1e-8, most=5000)
    # The gap is 1e-8 of a value of size 1, and CLARABEL solves to 1e-8; strong convexity gives the square root of it.
    assert dadm.objective(y, WINDOW, mu, found) == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(found, h.value, atol=1e-3)
    assert dadm.objective(y, WINDOW, mu, found) < first
    # The multiplier has to stay in the ball, and its sums have to be those that are kept along with it.
    assert np.linalg.norm(state.Lambda, 2) <= mu * (1 + 1e-9)
    dense = np.array([np.trace(state.Lambda[:, ::-1], offset=k) for k in range(LENGTH - WINDOW, -WINDOW, -1)])
    np.testing.assert_allclose(state.sums, dense, atol=1e-9)
    # Singular values of H(y) that are zero at the optimum are as small as the error of the series here.
    assert state.rank == np.sum(np.linalg.svd(hankel(h).value)[1] > 1e-3)


@pytest.mark.parametrize("C", [0.5, 3.0])
def test_gcg_reaches_the_optimum(y: Floats, C: float) -> None:
    W = cp.Variable((WINDOW, LENGTH - WINDOW + 1))
    w = cp.vec(W, order="C")
    loss = C * cp.sum_squares(W - matrix(y, WINDOW))
    outside = gcg.HANKEL * C * cp.sum_squares(w - projection() @ w)
    best = cp.Problem(cp.Minimize(loss + outside + 0.5 * cp.normNuc(W))).solve(solver=cp.CLARABEL)
    problem = gcg.Objective(y, WINDOW, C)
    U, V, values = gcg.solve(problem, *empty(), most=WINDOW, price=1e-6)
    # A pair that is worth 1e-6 more than its price lowers the objective by far less; CLARABEL solves to 1e-8.
    assert values[-1] == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(U @ V.T, W.value, atol=1e-3)
    assert len(values) > 2
    assert np.all(np.diff(values) <= 0)


def test_gcg_has_the_gradient_of_its_objective(y: Floats) -> None:
    problem = gcg.Objective(y, WINDOW, 2.0)
    x = np.random.default_rng(2).standard_normal((LENGTH + 1) * 2)
    # Differences forward, of steps 1e-6: their error is about 1e-6 times second derivatives of size 100.
    expected = approx_fprime(x, lambda x: problem.value_and_gradient(x)[0], 1e-6)
    np.testing.assert_allclose(problem.value_and_gradient(x)[1], expected, atol=2e-3)


def test_first_atom_of_gcg_has_the_best_weight(y: Floats) -> None:
    problem = gcg.Objective(y, WINDOW, 2.0)
    none = empty()
    left, _, right = problem.leading_pair(*none)
    U, V = gcg.with_atom(problem, *none, left, right)
    second = problem.leading_pair(U, V)
    U, V = gcg.with_atom(problem, U, V, second[0], second[2])
    for k in range(2):
        for part in (0.99, 1.01):
            scaled = np.ones(2)
            scaled[k] = np.sqrt(part)
            assert problem.value(U * scaled, V * scaled) > problem.value(U, V)


@pytest.mark.parametrize("method", [dadm, gcg])
def test_paths_have_the_ranks(method: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    truth = random_system(5, 119, rng)
    y = truth + 0.05 * rng.standard_normal(119)
    ranks: dict[bytes, int] = {}
    gaps: list[float] = []
    solve = method.solve

    def followed(*arguments: Any) -> Any:
        out = solve(*arguments)
        if method is dadm:
            ranks[out.tobytes()] = arguments[3].rank
            gaps.append(arguments[3].gap)
        else:
            ranks[arguments[0].means(*out[:2]).tobytes()] = out[0].shape[1]
        return out

    monkeypatch.setattr(method, "solve", followed)
    found = method.path(y, 40, (2, 6))
    if method is dadm:
        assert all(gap <= dadm.GAP for gap in gaps)
    # Solutions of every rank need not exist, as pairs of poles enter together: one below will do.
    for rank, series in found.items():
        assert rank - 1 <= ranks[series.tobytes()] <= rank
    errors = [float(np.linalg.norm(series - y)) for _, series in sorted(found.items())]
    assert errors[1] < errors[0]  # less regularisation at the larger rank


def test_slra_is_a_local_optimum_below_its_start() -> None:
    """It improves on the fit of Kung's poles, and no small change of the poles improves on it."""
    rng, t = np.random.default_rng(1), np.arange(60)
    y = 0.95**t * np.cos(0.7 * t) + 0.2 * rng.standard_normal(60)

    def left(poles: Floats) -> float:
        """What the best combination of these exponentials leaves of y."""
        basis = poles[None, :] ** t[:, None]
        return float(np.linalg.norm(y - (basis @ np.linalg.lstsq(basis, y.astype(complex), rcond=None)[0]).real))

    found = slra.fit(y, 20, 2)
    recurrence = np.linalg.lstsq(np.column_stack([found[1:-1], found[:-2]]), found[2:], rcond=None)[0]
    poles = np.roots([1.0, *-recurrence])
    end = float(np.linalg.norm(y - found))
    assert left(poles) == pytest.approx(end, rel=1e-6)  # the series is a sum of these exponentials
    assert end < 0.999 * float(np.linalg.norm(y - htls(y, 20, 2)))  # Kung's poles
    for step in (1e-3, -1e-3, 1e-3j, -1e-3j):
        moved = poles + np.array([step, np.conj(step)]) if abs(poles[0].imag) > 0 else poles + step.real
        assert left(moved) > end


@pytest.mark.parametrize("fit", [slra.fit, slra.fit_short])
def test_slra_denoises(fit: Callable[[Floats, int, int], Floats]) -> None:
    rng, t = np.random.default_rng(0), np.arange(119)
    truth = 0.97**t * np.cos(0.5 * t)
    y = truth + 0.05 * rng.standard_normal(119)
    # The least error is 0.05 √(4/119) = 0.009 on average; twice that is far in the tail of a χ² with four degrees.
    assert np.sqrt(np.mean((fit(y, 40, 2) - truth) ** 2)) < 0.018


def test_rslm_solves_the_problem_of_the_paper(y: Floats) -> None:
    C = 1.5
    h = cp.Variable(LENGTH)
    value = C * cp.sum_squares(h - y) + 0.5 * cp.square(cp.normNuc(hankel(h)))
    best = cp.Problem(cp.Minimize(value)).solve(solver=cp.CLARABEL)
    # The optimum has a smaller rank than 5, so the limit does not matter. CLARABEL solves to 1e-8.
    assert np.linalg.svd(hankel(h).value)[1][4] < 1e-4
    h.value = rslm_hankel.fit_at(y, WINDOW, 5, C)
    # The value is off by the square of the relative gradient, 1e-3, and by the smoothing of the structure, about 1e-5.
    assert value.value == pytest.approx(best, rel=1e-3)


def test_weight_of_rslm_does_not_depend_on_units(y: Floats) -> None:
    # As accurate as ARPACK is asked to be.
    assert rslm_hankel.weight(10 * y, WINDOW, 2) == pytest.approx(rslm_hankel.weight(y, WINDOW, 2), rel=1e-4)
