"""min C ‖P_Ω(W − Y)‖² + ½ ‖W‖_*²  with W ≥ 0 and rank at most r, by the alternating direction method of multipliers.

A second matrix X = W carries the data and W ≥ 0, entry by entry; W carries the trace norm, by soft-thresholding of
singular values at τ = ‖W‖_*/ρ. Off Ω the scaled multiplier is min(0, W + multiplier): zero, except at entries that
would be negative. So all matrices are low rank + sparse, and no dense one is stored. W is scanned for negative
entries a block of columns at a time. Singular vectors are updated by one step of a block power method from the last
ones. The start is the rank-one fit of non-negative data, a choice made here: it has no negative entry, and is nearer
than 0.

H. Fang, Z. Zhang, Y. Shao, C.-J. Hsieh, Improved bounded matrix completion for large-scale recommender systems, 2017.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from paper.observed import Entries
from paper.record import Record
from rslm.kernels import predict_pairs
from rslm.runtime.types import Floats, Indices64

NAME = "BMC"
PROBLEM = "C · squares + ½ ‖W‖_*², W ≥ 0"
GRID = (1e1, 1e2, 1e3, 1e4)
RHO = 0.35  # ρ in units of 2C. On MovieLens 1.0 takes three times as long, and 0.2 swings: the rank limit is not convex
MORE = 5  # vectors of the block power method beyond the rank
TOL, MAX_ITER = 1e-6, 5000  # both residuals relative to W
SCAN = 1 << 18  # entries in a block of columns
MARGIN = 1e-5  # of the largest entry: what single precision may miss in the scan


@dataclass
class Negative:
    """Entries off Ω with a multiplier, which is below zero: their places t d + i, sorted."""

    at: Indices64
    multiplier: Floats


def fit(data: Entries, rank: int, weight: float, record: Record) -> None:
    """`weight` is C."""
    d, T = data.shape
    rows, cols = data.columns.places()
    observed = cols * d + rows
    width = min(rank + MORE, d, T)
    left, right = rank_one(data)
    block = np.linalg.qr(np.hstack([right, np.random.default_rng(0).standard_normal((T, width - 1))]))[0]
    rho, on = RHO * 2.0 * weight, np.zeros(len(data.y))
    off = Negative(np.zeros(0, np.int64), np.zeros(0))
    record(left, right)
    for _ in range(MAX_ITER):
        w = data.at(left, right)
        a = w + on
        x = np.maximum((2.0 * weight * data.y + rho * a) / (2.0 * weight + rho), 0.0)
        move = 2.0 * x - a - w  # X − multiplier − W, the matrix to be thresholded less W
        places = np.union1d(off.at, negative(left, right, observed))
        before = np.zeros(len(places))
        before[np.searchsorted(places, off.at)] = off.multiplier
        i, t = places % d, places // d
        w_off = predict_pairs(i, t, left, right, data.threads)
        after = np.minimum(w_off + before, 0.0)
        primal = float(np.sqrt(np.sum((w - x) ** 2) + np.sum((after - before) ** 2)))  # ‖W − X‖
        S = sparse.csc_array((np.abs(w_off + before) - w_off, (i, t)), shape=data.shape)
        on, off = a - x, Negative(places[after < 0], after[after < 0])

        Q = np.linalg.qr(data.times(move, block) + S @ block + left @ (right.T @ block))[0]
        P, R = np.linalg.qr(data.transposed_times(move, Q) + S.T @ Q + right @ (left.T @ Q))
        A, s, Bt = np.linalg.svd(R)
        block = P @ A
        new = (Q @ Bt.T)[:, :rank] * thresholded(s[:rank], rho), block[:, :rank]
        size = float(np.linalg.norm(new[0]))
        dual = distance(left, right, *new)
        left, right = new
        record(left, right)
        if max(primal, dual) <= TOL * size:
            return


def thresholded(s: Floats, rho: float) -> Floats:
    """The singular values of the W that minimises ½ ‖W‖_*² + ½ ρ ‖W − B‖², from those of B, the largest first.

    With k of them left, τ = Σ (s − τ)/ρ gives τ = Σ s/(ρ + k); k is the largest number with s_k > τ.
    """
    tau = np.cumsum(s) / (rho + np.arange(1, len(s) + 1))
    k = int(np.count_nonzero(s > tau))
    return np.maximum(s - tau[k - 1], 0.0) if k else np.zeros_like(s)


def negative(left: Floats, right: Floats, observed: Indices64) -> Indices64:
    """The places off Ω where left @ right.T is below zero, or may be for single precision."""
    d, step = len(left), max(1, SCAN // len(left))
    A, B = left.astype(np.float32).T, right.astype(np.float32)
    bound = MARGIN * np.linalg.norm(left, axis=1).max() * np.linalg.norm(right, axis=1).max()
    parts = [k * d + np.flatnonzero(B[k : k + step] @ A < bound) for k in range(0, len(right), step)]
    places = np.concatenate(parts)
    near = np.minimum(np.searchsorted(observed, places), len(observed) - 1)
    return np.asarray(places[observed[near] != places])


def rank_one(data: Entries) -> tuple[Floats, Floats]:
    """A rank-one fit, which is non-negative if the data are: means of columns, then factors of rows."""
    right = data.regress(np.ones((data.shape[0], 1)), 1.0)
    return data.transposed.regress(right, 1.0), right


def distance(left: Floats, right: Floats, left2: Floats, right2: Floats) -> float:
    """‖left @ right.T − left2 @ right2.T‖, with the smaller factors of a joint basis, which does not cancel."""
    L, R = np.linalg.qr(np.hstack([left, left2]))[1], np.linalg.qr(np.hstack([right, right2]))[1]
    k = left.shape[1]
    return float(np.linalg.norm(L[:, :k] @ R[:, :k].T - L[:, k:] @ R[:, k:].T))
