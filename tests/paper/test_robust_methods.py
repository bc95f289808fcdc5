"""RMC and the robust completion of rslm on small matrices."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from paper.methods.robust import rmc, rslm_robust
from paper.observed import Entries
from paper.record import Record

D, T, RANK = 100, 80, 2


def noisy(D=D, T=T, seed=0, outliers=0.1):
    """A matrix of rank 2, 60 % of its entries, a tenth of them off by a lot."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((D, RANK)) @ rng.standard_normal((RANK, T))
    rows, cols = np.nonzero(rng.random((D, T)) < 0.6)
    y = W[rows, cols]
    hit = rng.random(len(y)) < outliers
    y = y + np.where(hit, 10 * rng.standard_normal(len(y)), 0.0)
    return W, Entries.of(rows, cols, y, (D, T))


def dense(data, W, delta, lam):
    """The objective from a dense matrix."""
    rows, cols = data.columns.places()
    observed = np.zeros((D, T), bool)
    observed[rows, cols] = True
    return np.sum(np.sqrt(delta**2 + (W[rows, cols] - data.y) ** 2)) + lam * np.sum(W[~observed] ** 2)


def point_of(data, lam=0.3, delta=0.5, seed=1):
    rng = np.random.default_rng(seed)
    U, s, Vt = np.linalg.svd(rng.standard_normal((D, RANK)) @ rng.standard_normal((RANK, T)))
    return rmc.Point(data, lam, delta, U[:, :RANK], s[:RANK], Vt[:RANK].T)


def some_tangent(point, seed=2):
    rng = np.random.default_rng(seed)
    return point.project(rng.standard_normal((D, 3)), rng.standard_normal((T, 3)))


def test_value_is_that_of_the_dense_matrix():
    data = noisy()[1]
    point = point_of(data)
    W = (point.U * point.s) @ point.V.T
    # A sum of 8000 terms in double precision.
    assert point.value == pytest.approx(dense(data, W, 0.5, 0.3), rel=1e-12)


def test_gradient_by_finite_differences():
    point = point_of(noisy()[1])
    xi, h = some_tangent(point), 1e-5
    slope = (point.moved(xi, h).value - point.moved(xi, -h).value) / (2 * h)
    # Central differences: h² from the third derivative, 1e-16/h from rounding; both are near 1e-10.
    assert point.gradient.dot(xi) == pytest.approx(slope, rel=1e-7)


def test_step_is_nearly_exact_on_the_line():
    point = point_of(noisy()[1])
    xi = point.gradient.plus(-2.0, point.gradient)
    left, right = point.factors(xi)
    W, line = (point.U * point.s) @ point.V.T, left @ right.T

    def slope(t, h=1e-6):
        ends = (dense(point.data, W + s * line, point.delta, point.lam) for s in (t + h, t - h))
        return (next(ends) - next(ends)) / (2 * h)

    # LINE_SLOPE is 0.1; finite differences change the ratio in the sixth digit.
    assert abs(slope(point.along(xi))) <= 0.1001 * abs(slope(0.0))


def test_falls_within_each_delta():
    data = noisy()[1]
    point = point_of(data, lam=1e-3, delta=0.1)
    values = [point.value]

    def score(left, right):
        values.append(dense(data, left @ right.T, 0.1, 1e-3))
        return {}

    end = []
    Record(score).run(lambda record: end.append(rmc.stage(point, record)))
    assert len(values) > 5
    assert np.all(np.diff(values) < 0)
    # The stage ends where a step gains a millionth, far below the gradient of any entry, which is near 1.
    assert np.sqrt(end[0].gradient.dot(end[0].gradient)) < 0.02 * np.sqrt(len(data.y))


def test_recovers_in_spite_of_outliers():
    W, data = noisy()
    record = Record(lambda left, right: {}).run(lambda record: rmc.fit(data, RANK, 0.0, record))
    left, right = record.last
    # The bias of √(δ² + e²) goes with δ, whose last value is 1e-3 of the data.
    assert np.linalg.norm(left @ right.T - W) <= 1e-3 * np.linalg.norm(W)
    # Least squares do not come near: the outliers count.
    P, s, Q = data.singular_vectors(RANK)
    assert np.linalg.norm((P * s) @ Q.T - W) > 0.3 * np.linalg.norm(W)


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_rslm_reaches_the_convex_optimum(epsilon):
    (D, T), C = (40, 30), 0.05
    data = noisy(D, T)[1]
    rows, cols = data.columns.places()
    X = cp.Variable((D, T))
    errors = cp.pos(cp.abs(X[rows, cols] - data.y) - epsilon)
    nuclear = cp.normNuc(X)
    best = cp.Problem(cp.Minimize(C * cp.sum(errors) + 0.5 * cp.square(nuclear))).solve(solver=cp.SCS, eps=1e-6)
    record = Record(lambda left, right: {}).run(lambda record: rslm_robust.fit(data, 10, C, record, epsilon))
    W = record.last[0] @ record.last[1].T
    errors = np.maximum(np.abs(W[rows, cols] - data.y) - epsilon, 0.0)
    found = C * errors.sum() + 0.5 * np.linalg.norm(W, "nuc") ** 2
    # The tolerance of rslm here is a relative gradient of 1e-3, and the value is off by its square times the condition.
    assert found == pytest.approx(best, rel=2e-3)
