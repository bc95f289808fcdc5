"""APGL, Active ALT and PRP minimise ‖P_Ω(W) − Y‖² + μ‖W‖_* over matrices of at most a given rank."""

from __future__ import annotations

from types import ModuleType

import cvxpy as cp
import numpy as np
import pytest

from paper.methods.completion import active_alt, apgl, prp
from paper.observed import Entries
from paper.record import Record
from rslm.runtime.types import Floats

METHODS = pytest.mark.parametrize("method", [apgl, active_alt, prp], ids=lambda m: m.NAME)


def observed(d: int, T: int, part: float, rank: int, noise: float) -> Entries:
    rng = np.random.default_rng(1)
    M = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, T)) + noise * rng.standard_normal((d, T))
    rows, cols = np.nonzero(rng.random((d, T)) < part)
    return Entries.of(rows, cols, M[rows, cols], (d, T))


@pytest.fixture(scope="module")
def small() -> Entries:
    return observed(15, 12, 0.7, 3, 0.5)


@pytest.fixture(scope="module")
def large() -> Entries:
    return observed(120, 90, 0.4, 6, 0.5)


def objective(data: Entries, weight: float, left: Floats, right: Floats) -> float:
    W = left @ right.T
    rows, cols = data.columns.places()[:2]
    return float(np.sum((W[rows, cols] - data.y) ** 2) + weight * np.linalg.norm(W, "nuc"))


def run(method: ModuleType, data: Entries, rank: int, weight: float) -> Record:
    record = Record(lambda left, right: {"objective": objective(data, weight, left, right), "rank": left.shape[1]})
    return record.run(lambda record: method.fit(data, rank, weight, record))


def optimum(data: Entries, weight: float) -> tuple[float, Floats]:
    rows, cols = data.columns.places()[:2]
    W = cp.Variable(data.shape)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(W[rows, cols] - data.y) + weight * cp.normNuc(W)))
    problem.solve(solver=cp.SCS, eps=1e-8, max_iters=100_000)
    return float(problem.value), np.asarray(W.value)


@METHODS
@pytest.mark.parametrize("weight", [0.5, 5.0])
def test_reaches_the_convex_optimum_where_the_rank_limit_does_not_bind(
    method: ModuleType, small: Entries, weight: float
) -> None:
    best, W = optimum(small, weight)
    rank = int(np.count_nonzero(np.linalg.svd(W, compute_uv=False) > 1e-4))
    assert 1 < rank < 12  # the answer has to find it
    record = run(method, small, rank + 1, weight)
    # Methods end when the objective falls by less than 1e-6 of it in some iterations: within 1e-5 of the limit.
    assert len(record.points) < 500  # ended by that rule, not by the limit of iterations
    assert best * (1 - 1e-6) <= record.points[-1]["objective"] <= best * (1 + 1e-5)


@METHODS
def test_ends_at_a_stationary_point_where_the_rank_limit_binds(method: ModuleType, large: Entries) -> None:
    weight, rank = 5.0, 4
    left, right = run(method, large, rank, weight).last
    P, s, Qt = np.linalg.svd(left @ right.T)
    P, Q = P[:, :rank], Qt[:rank].T
    assert s[rank - 1] > 1  # all of the rank is used
    G = np.zeros(large.shape)
    rows, cols = large.columns.places()[:2]
    G[rows, cols] = 2 * ((left @ right.T)[rows, cols] - large.y)
    # On the manifold the gradient is that of the loss plus μ P Qᵀ. An objective within 1e-5 of its limit
    # bounds it by about √1e-5 of the gradient at zero.
    bound = 3e-3 * np.linalg.norm(large.y * 2)
    assert np.linalg.norm(G @ Q + weight * P) < bound
    assert np.linalg.norm(G.T @ P + weight * Q) < bound


@pytest.mark.parametrize("method", [apgl, active_alt], ids=lambda m: m.NAME)
def test_all_reach_the_same_objective_where_the_rank_limit_binds(method: ModuleType, large: Entries) -> None:
    # A rank limit makes local minima possible; here the three methods, which are unlike, meet in one.
    reached = run(method, large, 4, 5.0).points[-1]["objective"]
    other = run(prp, large, 4, 5.0).points[-1]["objective"]
    assert reached == pytest.approx(other, rel=1e-5)  # where the methods end, see above


@METHODS
def test_objective_falls_and_the_rank_limit_holds(method: ModuleType, large: Entries) -> None:
    points = run(method, large, 4, 5.0).points
    values = np.array([p["objective"] for p in points])
    assert values[-1] < 0.5 * values[0]
    assert max(p["rank"] for p in points) == 4
    if method is not apgl:  # whose momentum, and larger μ at first, let the objective rise
        assert np.all(np.diff(values) <= 1e-9 * values[0])  # rounding


@METHODS
def test_recovers_a_low_rank_matrix_from_part_of_its_entries(method: ModuleType) -> None:
    data = observed(120, 90, 0.5, 3, 0.0)
    rng = np.random.default_rng(1)
    M = rng.standard_normal((120, 3)) @ rng.standard_normal((3, 90))
    left, right = run(method, data, 3, 1e-3).last
    # The weight shrinks each singular value by about μ/2 over the part observed: 1e-3, of values near 100.
    assert np.linalg.norm(left @ right.T - M) < 1e-3 * np.linalg.norm(M)


@METHODS
def test_a_weight_above_the_gradient_at_zero_gives_zero(method: ModuleType, small: Entries) -> None:
    largest = np.linalg.svd(small.times(small.y, np.eye(12)), compute_uv=False)[0]
    left, right = run(method, small, 5, 2.01 * largest).last
    assert not np.any(left @ right.T)
