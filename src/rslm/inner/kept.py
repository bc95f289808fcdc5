"""Checks whether W keeps its bounds, and moves it into them if it does not.

Where C is so large that the systems of the columns are almost singular, a solution with hard bounds may violate them by
more than rounding errors. Moving W to the nearest point within the bounds needs no such system.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rslm.inner.base import InnerSolution
from rslm.kernels import Columns, Factors, bound
from rslm.location import Effects
from rslm.runtime.types import Floats
from rslm.structures import Box

KEPT = 1e-10  # allowed violation of the bounds, relative to the largest entry of W within them
BLOCK = 1 << 20  # entries of W that are in memory at a time
MOST = 2e9  # multiplications; larger matrices are not checked


def worst_violation(X: Floats, V: Floats, lower: Floats, upper: Floats) -> tuple[float, float]:
    """The largest violation of the bounds by an entry of X Vᵀ, and the largest one that is allowed."""
    if V.size * len(X) > MOST:
        return 0.0, 0.0
    violation, size = 0.0, 0.0
    step = max(BLOCK // len(X), 1)
    for start in range(0, len(V), step):
        at = slice(start, start + step)
        W = X @ V[at].T
        inside = np.clip(W, lower[:, at], upper[:, at])
        violation = max(violation, float(np.abs(W - inside).max(initial=0.0)))
        size = max(size, float(np.abs(inside).max(initial=0.0)))
    return violation, KEPT * size


def nearest(X: Floats, V: Floats, lower: Floats, upper: Floats, threads: int) -> Floats:
    """The nearest V with X Vᵀ within the bounds; if there is none, a V that violates them."""
    nothing = Columns(np.zeros(len(V) + 1, dtype=np.int64), np.zeros(0, dtype=np.int32), len(X))
    lengths = np.linalg.norm(X, axis=0)
    # With columns of X of length 1 the identity is a natural metric.
    size = np.where(lengths > 0, lengths, 1.0)
    factors: Factors = nothing.factorise(X / size, np.ones(len(V)), threads, np.zeros(0))
    return bound(X / size, V * size, factors, lower, upper, np.inf, threads).V / size


class Kept(InnerSolution):
    """A V that keeps the bounds: an answer, but not a solution of the inner problem, so it has no derivatives."""

    def __init__(self, V: Floats, value: float, intercepts: Floats | None, effects: Effects | None = None) -> None:
        self.V, self.value, self._intercepts, self.effects = V, value, intercepts, effects
        self.gradient = np.full_like(V, np.nan)

    def intercepts(self) -> Floats | None:
        return self._intercepts

    def derivative(self, xi: Floats) -> Floats:
        raise TypeError("a matrix that was moved into its bounds has no derivative")

    def preconditioner(self) -> Callable[[Floats], Floats]:
        raise TypeError("a matrix that was moved into its bounds has no preconditioner")

    def dual(self) -> Floats:
        raise TypeError("a matrix that was moved into its bounds has no dual variables")


def kept_bounds(
    box: Box,
    U: Floats,
    V: Floats,
    intercepts: Floats | None,
    scale: Floats,
    value: Callable[[Floats, Floats], float],
    threads: int,
) -> tuple[Floats, Kept]:
    """U and V moved so that (scale·U) Vᵀ is within the bounds; of several candidates, the one with least `value`."""
    X = U * scale
    lower, upper = box.planes((len(X), len(V)))
    found = [(X, nearest(X, V, lower, upper, threads)), (nearest(V, X, lower.T, upper.T, threads), V)]
    inward = box.inward(X, V, value)
    found += [] if inward is None else [inward]
    kept = []
    for left, right in found:
        violation, allowed = worst_violation(left, right, lower, upper)
        if violation <= allowed and np.isfinite(left).all() and np.isfinite(right).all():
            kept.append((value(left, right), left, right))
    if not kept:
        return U, Kept(V, math.inf, intercepts)
    best, left, right = min(kept, key=lambda one: one[0])
    size = float(np.linalg.norm(left / scale)) or 1.0
    return left / scale / size, Kept(right * size, best, intercepts)
