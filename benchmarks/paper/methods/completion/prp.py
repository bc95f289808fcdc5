"""PRP: min ‖P_Ω(W) − Y‖² + μ‖W‖_* over matrices of at most the given rank, by proximal Riemannian pursuit.

Pursuit adds to W the leading singular directions of −∇f that are normal to the manifold of the present rank, where
their singular values exceed μ. Between, the objective is minimised on the manifold by Riemannian conjugate gradients
whose retraction is proximal: it soft-thresholds singular values, so the rank can also fall. Where the limit of the
rank does not bind, it ends at the optimum of the convex problem: no normal direction exceeds μ.

Tan, Xiao, Gao, Xu, van den Hengel and Shi, "Proximal Riemannian pursuit for large-scale trace-norm minimization",
2016; Tan, Tsang, Wang, Vandereycken and Pan, "Riemannian pursuit for big matrix recovery", 2014. Deviation: the first
paper takes proximal gradient steps on the manifold; these are conjugate, as in the second, because that is faster: on
MovieLens-1M (μ = 10) 125 steps end where 500 without conjugacy have not come.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from paper.methods.completion.nuclear_norm import Plateau, Point, leading
from paper.observed import Entries
from paper.record import Record
from rslm.runtime.types import Floats

NAME = "PRP"
PROBLEM = "square loss + μ‖W‖_*, rank at most r"
GRID = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)

SPARE = 5  # singular triplets beyond those wanted: the block power iteration converges by the gap after them
KEPT = 0.65  # a pursuit adds directions whose singular value is at least this part of the largest (Tan et al., 2014)
LOOSE, TIGHT = 1e-2, 1e-6  # a minimisation ends when the objective falls by less, relative to its value, in five steps


class Tangent(NamedTuple):
    """P M Qᵀ + A Qᵀ + P Bᵀ at the point P diag(s) Qᵀ, with PᵀA = 0 and QᵀB = 0."""

    M: Floats
    A: Floats
    B: Floats

    def dot(self, other: Tangent) -> float:
        return float(sum(np.sum(a * b) for a, b in zip(self, other, strict=True)))

    def times(self, factor: float) -> Tangent:
        return Tangent(*(factor * a for a in self))

    def plus(self, factor: float, other: Tangent) -> Tangent:
        return Tangent(*(a + factor * b for a, b in zip(self, other, strict=True)))

    def factors(self, at: Point) -> tuple[Floats, Floats]:
        return np.hstack([at.P @ self.M + self.A, at.P]), np.hstack([at.Q, self.B])


def fit(data: Entries, rank: int, weight: float, record: Record) -> None:
    W, left, tol = Point.zero(data), 500, LOOSE
    record(W.left, W.right)
    outer = Plateau(TIGHT, 1)
    while left > 0:
        wider = _pursue(data, W, rank, weight) if W.s.size < rank else None
        if wider is None and W.s.size == 0:
            return
        if tol == TIGHT and (wider is None or outer.reached(W.objective(weight))):
            return
        # Only the last rank needs an accurate minimum; those before are warm starts.
        if wider is None or wider.s.size == rank:
            tol = TIGHT
        W, left = _minimise(data, wider or W, weight, tol, left, record)


def _pursue(data: Entries, W: Point, rank: int, weight: float) -> Point | None:
    """W with more directions, or nothing if none decreases the objective."""
    values = -2 * W.residual
    SQ, StP = (data.times(values, W.Q), data.transposed_times(values, W.P)) if W.s.size else (W.P, W.Q)
    room = rank - W.s.size
    start = np.random.default_rng(0).standard_normal((data.shape[1], min(room + SPARE, *data.shape)))
    left, right = np.hstack([-W.P, W.P @ (W.P.T @ SQ) - SQ]), np.hstack([StP, W.Q])
    P, s, Q = leading(data, values, left, right, np.linalg.qr(start)[0], 1, 1e-3)
    k = np.count_nonzero((s > weight * (1 + 1e-3)) & (s >= KEPT * s[0]))
    if min(k, room) == 0:
        return None
    P, Q, c = P[:, : min(k, room)], Q[:, : min(k, room)], s[: min(k, room)] - weight
    seen = data.at(P * c, Q)
    step = float(c @ c) / (2 * float(seen @ seen))
    both = np.concatenate([W.s, step * c])
    order = np.argsort(-both)
    return Point(np.hstack([W.P, P])[:, order], both[order], np.hstack([W.Q, Q])[:, order], W.residual + step * seen)


def _minimise(data: Entries, W: Point, weight: float, tol: float, left: int, record: Record) -> tuple[Point, int]:
    """Conjugate gradients (Polak–Ribière, transport by projection) on the manifold; `left` is the limit of steps."""
    plateau = Plateau(tol, 5)
    gradient = _gradient(data, W, weight)
    direction = gradient.times(-1)
    while left > 0:
        left -= 1
        slope = gradient.dot(direction)
        if slope > -1e-3 * np.sqrt(gradient.dot(gradient) * direction.dot(direction)):
            direction = gradient.times(-1)
            slope = gradient.dot(direction)
        new = _search(data, W, direction, slope, weight) if slope < 0 else None
        if new is None:
            break
        record(new.left, new.right)
        old, before, W = W, gradient, new
        if plateau.reached(W.objective(weight)) or W.s.size == 0:
            break
        gradient = _gradient(data, W, weight)
        steepest = gradient.times(-1)
        if W.s.size == old.s.size:
            change = gradient.plus(-1, _carry(before, old, W))
            beta = max(0.0, gradient.dot(change) / before.dot(before))
            direction = steepest.plus(beta, _carry(direction, old, W))
        else:
            direction = steepest
    return W, left


def _gradient(data: Entries, W: Point, weight: float) -> Tangent:
    """Of the objective on the manifold, where the nuclear norm is smooth with gradient P Qᵀ."""
    SQ, StP = data.times(2 * W.residual, W.Q), data.transposed_times(2 * W.residual, W.P)
    M = W.P.T @ SQ
    return Tangent(M + weight * np.eye(W.s.size), SQ - W.P @ M, StP - W.Q @ M.T)


def _carry(x: Tangent, old: Point, new: Point) -> Tangent:
    """The projection of a tangent vector to the tangent space of another point."""
    left, right = x.factors(old)
    XQ, XtP = left @ (right.T @ new.Q), right @ (left.T @ new.P)
    M = new.P.T @ XQ
    return Tangent(M, XQ - new.P @ M, XtP - new.Q @ M.T)


def _search(data: Entries, W: Point, direction: Tangent, slope: float, weight: float) -> Point | None:
    """Armijo's rule from the step that is exact on the tangent space; nothing if rounding hides every decrease."""
    left, right = direction.factors(W)
    seen = data.at(left, right)
    step, value = -slope / (2 * float(seen @ seen)), W.objective(weight)
    # Projected again: where A and B are small, their rounding errors along P and Q are not.
    A, RA = np.linalg.qr(direction.A - W.P @ (W.P.T @ direction.A))
    B, RB = np.linalg.qr(direction.B - W.Q @ (W.Q.T @ direction.B))
    P, Q, k = np.hstack([W.P, A]), np.hstack([W.Q, B]), W.s.size
    core = np.zeros((2 * k, 2 * k))
    for _ in range(20):
        # W + step (direction + μ P Qᵀ), then thresholds by step μ: that is W + step direction to first order,
        # and a singular value that would pass through zero becomes zero.
        core[:k, :k] = np.diag(W.s + step * weight) + step * direction.M
        core[k:, :k], core[:k, k:] = step * RA, step * RB.T
        X, s, Yt = np.linalg.svd(core)
        s = np.maximum(s[:k] - step * weight, 0.0)
        n = np.count_nonzero(s)
        new = Point.of(data, P @ X[:, :n], s[:n], Q @ Yt[:n].T)
        if new.objective(weight) <= value + 1e-4 * step * slope:
            return new
        step /= 2
    return None
