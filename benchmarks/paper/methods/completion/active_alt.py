"""Active ALT: min ‖P_Ω(W) − Y‖² + μ‖W‖_* over matrices of at most the given rank, by active subspace selection.

Alternates two steps. The active subspace: the singular vectors that are left when the singular values of W − ∇f(W)/L
are soft-thresholded, by a warm-started block power iteration. The reduced problem: alternating minimisation (ridge
regressions) over the factors of W = A Bᵀ, with ‖W‖_* = min ½(‖A‖² + ‖B‖²), started in that subspace. Both decrease the
objective, and the first finds the rank. Where its limit does not bind, the answer is the optimum of the convex problem.

Hsieh and Olsen, "Nuclear norm minimization via active subspace selection", 2014.
"""

from __future__ import annotations

import numpy as np

from paper.methods.completion.nuclear_norm import Plateau, Point, balanced, leading
from paper.observed import Entries
from paper.record import Record
from rslm.runtime.types import Floats

NAME = "Active ALT"
PROBLEM = "square loss + μ‖W‖_*, rank at most r"
GRID = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)

SPARE = 5  # singular triplets beyond the rank: the block power iteration converges by the gap after them
CURVATURE = 2.0  # the Lipschitz constant of ∇f = 2 (P_Ω(W) − Y): with it the proximal step decreases the objective
TOL = 1e-6  # it ends when the objective falls by less, relative to its value, from one selection to the next
SWEEPS = 5  # alternating minimisations for one selection


def fit(data: Entries, rank: int, weight: float, record: Record) -> None:
    block = min(rank + SPARE, *data.shape)
    W = Point.zero(data)
    record(W.left, W.right)
    start: Floats = np.linalg.qr(np.random.default_rng(0).standard_normal((data.shape[1], block)))[0]
    plateau = Plateau(TOL, 1)
    for _ in range(100):
        P, s, start = leading(data, W.residual * (-2 / CURVATURE), W.P * W.s, W.Q, start, min(rank, block), 1e-3)
        s = np.maximum(s[:rank] - weight / CURVATURE, 0.0)
        k = np.count_nonzero(s)
        if k == 0:
            return
        A, B = P[:, :k] * np.sqrt(s[:k]), start[:, :k] * np.sqrt(s[:k])
        for _ in range(SWEEPS):
            A = data.transposed.regress(B, weight / 2)
            B = data.regress(A, weight / 2)
            record(A, B)
        W = Point.of(data, *balanced(A, B))
        if plateau.reached(W.objective(weight)):
            return
