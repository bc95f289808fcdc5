"""MMBS, R3MC, RTRMC and LMaFit: derivatives, what they minimise, and what they reach."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import cvxpy as cp
import numpy as np
import pytest

from paper.methods.completion import lmafit, mmbs, r3mc, rtrmc
from paper.observed import Entries
from paper.record import Record
from paper.trust_region import minimise
from rslm.runtime.types import Floats

METHODS = [mmbs, r3mc, rtrmc, lmafit]
NAMES = [method.NAME for method in METHODS]
SecondOrder = mmbs.Factored | rtrmc.ColumnSpace
WEIGHTS = {mmbs.NAME: 0.5, r3mc.NAME: 0.05, rtrmc.NAME: 0.3, lmafit.NAME: 0.0}


def entries(d: int, T: int, rank: int, share: float, noise: float, seed: int = 0) -> tuple[Entries, Floats]:
    """Entries of a low-rank matrix with a mean, like ratings; and the matrix."""
    rng = np.random.default_rng(seed)
    W = 1.0 + rng.standard_normal((d, rank - 1)) @ rng.standard_normal((rank - 1, T))
    rows, cols = np.nonzero(rng.random((d, T)) < share)
    Y = W + noise * rng.standard_normal((d, T))
    return Entries.of(rows, cols, Y[rows, cols], (d, T)), W


def dense(data: Entries) -> tuple[Floats, Floats]:
    """The data and the mask of what is observed, as dense matrices."""
    rows, cols = data.columns.places()
    Y, mask = np.zeros(data.shape), np.zeros(data.shape)
    Y[rows, cols], mask[rows, cols] = data.y, 1.0
    return Y, mask


def objective(name: str, data: Entries, weight: float, W: Floats) -> float:
    """What a method minimises, from its definition."""
    Y, mask = dense(data)
    loss = float(np.sum(mask * (W - Y) ** 2))
    outside = float(np.sum((1.0 - mask) * W**2))
    return {
        mmbs.NAME: loss + weight * float(np.linalg.norm(W, "nuc")),
        r3mc.NAME: loss + weight * float(np.sum(W**2)),
        rtrmc.NAME: 0.5 * loss + 0.5 * weight**2 * outside,
        lmafit.NAME: loss,
    }[name]


def fitted(method: ModuleType, data: Entries, rank: int, weight: float) -> tuple[Floats, Floats, list[float]]:
    """The factors that a method ends with, and its objective at every iterate."""

    def score(left: Floats, right: Floats) -> dict[str, float]:
        return {"objective": objective(method.NAME, data, weight, left @ right.T)}

    record = Record(score).run(lambda record: method.fit(data, rank, weight, record))
    left, right = record.last
    return left, right, [point["objective"] for point in record.points]


def mmbs_point(data: Entries) -> mmbs.Factored:
    rng = np.random.default_rng(1)
    U, V = (np.linalg.qr(rng.standard_normal((n, 3)))[0] for n in data.shape)
    return mmbs.Factored(data, WEIGHTS[mmbs.NAME], U, np.array([0.5, 2.0, 3.0]), V)


def rtrmc_point(data: Entries) -> rtrmc.ColumnSpace:
    U = np.linalg.qr(np.random.default_rng(1).standard_normal((data.shape[0], 3)))[0]
    return rtrmc.ColumnSpace(data, WEIGHTS[rtrmc.NAME], U)


def r3mc_point(data: Entries) -> r3mc.ThreeFactors:
    rng = np.random.default_rng(1)
    U, V = (np.linalg.qr(rng.standard_normal((n, 3)))[0] for n in data.shape)
    return r3mc.ThreeFactors(data, WEIGHTS[r3mc.NAME], U, rng.standard_normal((3, 3)), V)


@pytest.mark.parametrize("make", [mmbs_point, rtrmc_point])
def test_derivatives_of_the_second_order_methods(make: Callable[[Entries], SecondOrder]) -> None:
    point = make(entries(12, 16, 3, 0.6, 0.1)[0])
    rng = np.random.default_rng(2)

    def tangent() -> Floats:
        X = rng.standard_normal(point.gradient.shape)
        d, r = point.U.shape
        if isinstance(point, mmbs.Factored):
            X[d : d + r] += X[d : d + r].T  # B is symmetric
        X = point.precondition(X)  # ends with the projection onto horizontal vectors
        return np.asarray(X / np.sqrt(point.inner(X, X)))

    eta, zeta = tangent(), tangent()

    # Both retractions follow geodesics to second order, so slope and bend of the objective are those of the manifold.
    h = 1e-3  # the bend has errors of h² and of rounding over h², both about 1e-7 of the objective and its derivatives
    ahead, behind = point.retract(h * eta).value, point.retract(-h * eta).value
    assert point.inner(point.gradient, eta) == pytest.approx((ahead - behind) / (2 * h), rel=1e-4)
    bend = (ahead - 2.0 * point.value + behind) / h**2
    assert point.inner(eta, point.hessian(eta)) == pytest.approx(bend, rel=1e-4)

    # Symmetric up to rounding errors, of sums of some hundred numbers; with the bend along any vector, all is checked.
    for operator in (point.hessian, point.precondition):
        assert point.inner(zeta, operator(eta)) == pytest.approx(point.inner(eta, operator(zeta)), rel=1e-9)
        assert point.inner(eta, operator(eta)) > 0 or operator == point.hessian


class Rosenbrock:
    """A curved valley, in which the quadratic model is often wrong."""

    def __init__(self, x: Floats) -> None:
        self.x = x
        self.value = float(100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2 + 1.0)

    @property
    def gradient(self) -> Floats:
        a, b = self.x
        return np.array([-400.0 * a * (b - a**2) - 2.0 * (1.0 - a), 200.0 * (b - a**2)])

    def inner(self, a: Floats, b: Floats) -> float:
        return float(a @ b)

    def hessian(self, eta: Floats) -> Floats:
        a, b = self.x
        return np.array([[1200.0 * a**2 - 400.0 * b + 2.0, -400.0 * a], [-400.0 * a, 200.0]]) @ eta

    def precondition(self, eta: Floats) -> Floats:
        return eta

    def retract(self, eta: Floats) -> Rosenbrock:
        return Rosenbrock(self.x + eta)


def test_the_trust_region_rejects_steps_uphill() -> None:
    points: list[Rosenbrock] = []
    minimise(Rosenbrock(np.array([-1.2, 1.0])), points.append)
    values = [point.value for point in points]
    assert 0.0 in np.diff(values)  # a step was rejected
    assert np.diff(values).max() <= 0.0
    np.testing.assert_allclose(points[-1].x, 1.0, atol=1e-3)  # half of the digits of a change of 1e-7


def test_mmbs_vectors_are_horizontal() -> None:
    point = mmbs_point(entries(12, 16, 3, 0.6, 0.1)[0])
    turn = np.random.default_rng(2).standard_normal((3, 3))
    turn -= turn.T
    along = np.vstack([point.U @ turn, turn * (point.b[:, None] - point.b), point.V @ turn])
    for vector in (point.gradient, point.hessian(point.gradient), point.precondition(point.gradient)):
        size = np.sqrt(point.inner(vector, vector) * point.inner(along, along))
        assert abs(point.inner(vector, along)) < 1e-10 * size  # rounding errors


def test_derivatives_of_r3mc() -> None:
    point = r3mc_point(entries(12, 16, 3, 0.6, 0.1)[0])
    rng = np.random.default_rng(2)
    eta, zeta = (rng.standard_normal(point.gradient.shape) for _ in range(2))
    flat = point.transport(eta)
    h = 1e-5  # errors of h² and of rounding over h: 1e-10
    slope = (point.retract(h * flat).value - point.retract(-h * flat).value) / (2 * h)
    assert point.inner(point.gradient, flat) == pytest.approx(slope, rel=1e-6)

    # The transport is the orthogonal projection, up to rounding errors, and the gradient is in its range.
    np.testing.assert_allclose(point.transport(flat), flat, atol=1e-9)
    np.testing.assert_allclose(point.transport(point.gradient), point.gradient, atol=1e-9 * abs(point.gradient).max())
    assert point.inner(zeta, flat) == pytest.approx(point.inner(point.transport(zeta), eta), rel=1e-9)
    turns = rng.standard_normal((2, 3, 3))
    M, N = turns - turns.transpose(0, 2, 1)
    along = np.vstack([point.U @ M, point.R @ N - M @ point.R, point.V @ N])
    np.testing.assert_allclose(point.transport(along), 0.0, atol=1e-9)


def test_the_linearised_step_of_r3mc_is_exact_for_a_linear_change() -> None:
    point = r3mc_point(data := entries(12, 16, 3, 0.6, 0.1)[0])
    eta = np.zeros_like(point.gradient)
    eta[12:15] = np.random.default_rng(2).standard_normal((3, 3))  # of R alone: W is linear in it

    def value(step: float) -> float:
        return r3mc.ThreeFactors(data, point.lam, point.U, point.R + step * eta[12:15], point.V).value

    best = point.linearised_step(eta)
    parabola = np.polyfit([-1.0, 0.0, 1.0], [value(-1.0), value(0.0), value(1.0)], 2)
    assert best == pytest.approx(-parabola[1] / (2.0 * parabola[0]), rel=1e-8)  # rounding errors


@pytest.mark.parametrize("make", [mmbs_point, rtrmc_point, r3mc_point])
def test_values_are_those_of_the_definition(
    make: Callable[[Entries], mmbs.Factored | rtrmc.ColumnSpace | r3mc.ThreeFactors],
) -> None:
    point = make(data := entries(12, 16, 3, 0.6, 0.1)[0])
    if isinstance(point, mmbs.Factored):
        method, W = mmbs.NAME, (point.U * point.b) @ point.V.T
    elif isinstance(point, r3mc.ThreeFactors):
        method, W = r3mc.NAME, point.U @ point.R @ point.V.T
    else:
        method, W = rtrmc.NAME, point.U @ point.V.T
    assert point.value == pytest.approx(objective(method, data, WEIGHTS[method], W), rel=1e-10)  # rounding errors


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
@pytest.mark.parametrize("shape", [(40, 50), (50, 40)])
def test_the_objective_falls_to_a_stationary_point(method: ModuleType, shape: tuple[int, int]) -> None:
    data, _ = entries(*shape, 4, 0.5, 0.3)
    weight = WEIGHTS[method.NAME]
    left, right, values = fitted(method, data, 3, weight)
    assert np.diff(values).max() <= 1e-12 * values[0]  # monotone, up to rounding errors
    assert len(values) < 300  # it has ended by itself

    rng = np.random.default_rng(3)
    for _ in range(5):
        # A change of about 1 % of W; at a point that is not stationary the objective would change by as much.
        dL, dR = (0.01 * np.linalg.norm(X) / np.sqrt(X.size) * rng.standard_normal(X.shape) for X in (left, right))
        ahead, behind = (
            objective(method.NAME, data, weight, (left + sign * dL) @ (right + sign * dR).T) for sign in (1, -1)
        )
        bend = ahead - 2.0 * values[-1] + behind
        # The part of this change that Newton's method would still take. Ending at a change of 1e-7 of the objective
        # leaves about √1e-7 of a step of this size, times the convergence factor of the first-order methods.
        assert abs(ahead - behind) < 0.02 * bend


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_a_low_rank_matrix_is_recovered(method: ModuleType) -> None:
    data, W = entries(60, 80, 3, 0.4, 0.0)
    left, right, _ = fitted(method, data, 3, method.GRID[-1])
    # A relative gradient of 1e-6 and the smallest weights, 1e-6 or less, leave errors of that size, times a condition.
    assert np.linalg.norm(left @ right.T - W) < 1e-4 * np.linalg.norm(W)


def test_mmbs_reaches_the_convex_optimum() -> None:
    data, _ = entries(15, 12, 3, 0.7, 0.1)
    Y, mask = dense(data)
    X = cp.Variable(data.shape)
    mu = 4.0
    problem = cp.Problem(cp.Minimize(cp.sum_squares(cp.multiply(mask, X - Y)) + mu * cp.normNuc(X)))
    problem.solve(solver=cp.CLARABEL)
    assert np.linalg.matrix_rank(X.value, tol=1e-4) < 6  # the limit of the rank does not bind
    left, right, values = fitted(mmbs, data, 6, mu)
    assert values[-1] == pytest.approx(problem.value, rel=1e-6)  # ends at a change of 1e-7, CVXPY at 1e-8
    # Near the optimum W has half of the correct digits of the objective.
    np.testing.assert_allclose(left @ right.T, X.value, atol=1e-3 * np.linalg.norm(X.value))


def test_the_first_step_of_lmafit_is_least_squares_on_the_filled_matrix() -> None:
    data, _ = entries(12, 16, 3, 0.6, 0.1)
    iterates: list[Floats] = []

    def score(left: Floats, right: Floats) -> dict[str, float]:
        iterates.append(left @ right.T)
        return {}

    Record(score, max_iter=1).run(lambda record: lmafit.fit(data, 1, 0.0, record))
    Y, mask = dense(data)
    Z = np.where(mask, Y, iterates[0])
    right = np.linalg.svd(iterates[0])[2][:1].T
    left = np.linalg.qr(Z @ right)[0]
    np.testing.assert_allclose(iterates[1], left @ (left.T @ Z), atol=1e-9)  # rounding errors
