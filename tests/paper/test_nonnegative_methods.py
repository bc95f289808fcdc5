"""BMC, BMA and the non-negative completion of rslm on small matrices."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from paper.methods.nonnegative import bma, bmc, rslm_nonnegative
from paper.observed import Entries
from paper.record import Record

D, T = 20, 15


def binding(seed=0):
    """Non-negative data of which a completion without W ≥ 0 has many negative entries."""
    rng = np.random.default_rng(seed)
    W = np.maximum(rng.standard_normal((D, 3)) @ rng.standard_normal((3, T)), 0.0)
    rows, cols = np.nonzero(rng.random((D, T)) < 0.6)
    return Entries.of(rows, cols, W[rows, cols] + 0.1 * rng.random(len(rows)), (D, T))


def objective(data, C, W):
    rows, cols = data.columns.places()
    return C * np.sum((W[rows, cols] - data.y) ** 2) + 0.5 * np.linalg.norm(W, "nuc") ** 2


def optimum(data, C, bounded=True):
    rows, cols = data.columns.places()
    X = cp.Variable((D, T))
    value = C * cp.sum_squares(X[rows, cols] - data.y) + 0.5 * cp.square(cp.normNuc(X))
    problem = cp.Problem(cp.Minimize(value), [X >= 0] if bounded else [])
    return problem.solve(solver=cp.SCS, eps=1e-7, max_iters=20_000), X.value


@pytest.mark.parametrize("method", [bmc, rslm_nonnegative])
def test_reaches_the_convex_optimum(method):
    data, C = binding(), 3.0
    best, _ = optimum(data, C)
    free, W_free = optimum(data, C, bounded=False)
    assert W_free.min() < -0.1  # the bound binds
    assert best > free * 1.001
    record = Record(lambda left, right: {"value": objective(data, C, left @ right.T)})
    record.run(lambda record: method.fit(data, min(D, T), C, record))
    W = record.last[0] @ record.last[1].T
    # SCS is right to about 1e-5; BMC ends at residuals of 1e-6 of W, rslm at a relative gradient of 1e-4.
    assert record.ended == "converged"
    assert record.points[-1]["value"] == pytest.approx(best, rel=1e-4)
    assert W.min() > -1e-4 * W.max()
    assert record.points[-1]["value"] < 0.9 * record.points[0]["value"]


def test_threshold_solves_its_problem():
    s, rho = np.array([5.0, 3.0, 1.0, 0.2]), 2.5
    found = bmc.thresholded(s, rho)
    value = lambda x: 0.5 * x.sum() ** 2 + 0.5 * rho * np.sum((x - s) ** 2)  # noqa: E731
    for k in range(len(s)):  # a convex problem with box constraints: no coordinate can be improved alone
        best = minimize_scalar(
            lambda x, k=k: value(np.where(np.arange(4) == k, x, found)), bounds=(0, 6), method="bounded"
        )
        assert value(found) <= best.fun + 1e-9  # what minimize_scalar leaves
    assert found[0] > found[1] > 0.0


def test_scan_finds_exactly_what_is_negative_off_the_data():
    data = binding()
    rng = np.random.default_rng(5)
    left, right = rng.standard_normal((D, 3)), rng.standard_normal((T, 3))
    rows, cols = data.columns.places()
    W = left @ right.T
    W[rows, cols] = 1.0
    expected = np.flatnonzero(W.T.ravel() < 0)  # places are t d + i
    found = bmc.negative(left, right, cols * D + rows)
    assert np.isin(expected, found).all()
    assert W.T.ravel()[found].max() < 1e-3  # entries within rounding of single precision may be there too


def test_bma_falls_and_stays_feasible_and_ends_block_wise_optimal():
    data = binding(1)
    lows = []

    def score(left, right):
        lows.append((left @ right.T).min())
        return {"value": float(np.sum((data.at(left, right) - data.y) ** 2))}

    record = Record(score).run(lambda record: bma.fit(data, 3, 0.0, record))
    values = np.array([p["value"] for p in record.points])
    assert len(values) > 5
    assert np.all(np.diff(values) <= 1e-12 * values[0])  # rounding of a sum
    assert min(lows) > -1e-12
    P, Q = record.last
    # It ends after a sweep that gains less than 1e-5, so one element alone cannot gain more.
    for factor, other, entries in ((P, Q, data), (Q, P, data.transposed)):
        for i, x in np.ndindex(factor.shape):
            assert best_element(factor, other, entries, i, x) > values[-1] * (1 - 2e-5)


def best_element(factor, other, entries, i, x):
    """The least sum of squares that one element can reach without a negative entry, by brute force."""
    trial, least = factor.copy(), np.inf
    for value in factor[i, x] + np.linspace(-1.0, 1.0, 401):
        trial[i, x] = value
        if (trial[i] @ other.T).min() >= 0:
            least = min(least, float(np.sum((entries.at(trial, other) - entries.y) ** 2)))
    return least


def test_bma_recovers_a_matrix_of_its_rank():
    rng = np.random.default_rng(3)
    W = rng.random((60, 2)) @ rng.random((2, 50))
    rows, cols = np.nonzero(rng.random(W.shape) < 0.6)
    data = Entries.of(rows, cols, W[rows, cols], W.shape)
    record = Record(lambda left, right: {}).run(lambda record: bma.fit(data, 2, 0.0, record))
    # Coordinate descent ends when a sweep gains a hundred-thousandth of what is left: near, not at, the exact matrix.
    assert np.linalg.norm(record.last[0] @ record.last[1].T - W) < 0.02 * np.linalg.norm(W)
