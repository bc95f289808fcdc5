"""Whether a W that was solved with bounds keeps them, looked at entry by entry, and moved there if it does not.

Where C is so large that the systems of the columns are almost singular, solving for columns with hard bounds leaves
them beyond the bounds by more than rounding errors. To move them inside by the shortest way needs no such system.
"""

from __future__ import annotations

import numpy as np

from rslm.kernels import Columns, Factors, bound
from rslm.runtime.types import Floats

KEPT = 1e-10  # how far W may be beyond its bounds, relative to its largest entry within them
BLOCK = 1 << 20  # entries of W that exist at a time
MOST = 2e9  # multiplications that looking is worth; larger matrices are taken as their columns have been solved


def within_reach(X: Floats, V: Floats, lower: Floats, upper: Floats) -> tuple[float, float]:
    """How far X Vᵀ is beyond the bounds at most, and how far it may be."""
    if V.size * len(X) > MOST:
        return 0.0, 0.0
    beyond, size = 0.0, 0.0
    step = max(BLOCK // len(X), 1)
    for start in range(0, len(V), step):
        at = slice(start, start + step)
        W = X @ V[at].T
        inside = np.clip(W, lower[:, at], upper[:, at])
        beyond = max(beyond, float(np.abs(W - inside).max(initial=0.0)))
        size = max(size, float(np.abs(inside).max(initial=0.0)))
    return beyond, KEPT * size


def nearest(X: Floats, V: Floats, lower: Floats, upper: Floats, threads: int) -> Floats:
    """The nearest V with X Vᵀ within the bounds; where there is none, one that is not."""
    nothing = Columns(np.zeros(len(V) + 1, dtype=np.int64), np.zeros(0, dtype=np.int32), len(X))
    lengths = np.linalg.norm(X, axis=0)
    # With columns of X of length 1 the identity is a natural metric.
    size = np.where(lengths > 0, lengths, 1.0)
    factors: Factors = nothing.factorise(X / size, np.ones(len(V)), threads, np.zeros(0))
    return bound(X / size, V * size, factors, lower, upper, np.inf, threads).V / size
