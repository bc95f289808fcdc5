"""APGL: min ‖P_Ω(W) − Y‖² + μ‖W‖_* over matrices of at most the given rank, by accelerated proximal gradient.

A step from Z = W_k + β (W_k − W_{k−1}) soft-thresholds the singular values of Z − ∇f(Z)/L, a sparse matrix plus one of
low rank. L is searched for at every step, μ is decreased to its target by continuation, and singular values beyond the
rank are truncated. Where that limit does not bind, the answer is the optimum of the convex problem.

Toh and Yun, "An accelerated proximal gradient algorithm for nuclear norm regularized linear least squares problems",
2010. Deviations, each because it is faster on MovieLens-1M: the singular vectors come from a warm-started block power
iteration, where they use PROPACK; the line search starts from the largest curvature of the last ten steps if that is
more than 0.8 L; the momentum starts anew when the objective rises (O'Donoghue and Candès, 2015). Their truncation at a
gap of the singular values is left out: it changes the problem, and the experiments ask for a limit of the rank.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from paper.methods.completion.nuclear_norm import Plateau, Point, leading
from paper.observed import Entries
from paper.record import Record
from rslm.runtime.types import Floats

NAME = "APGL"
PROBLEM = "square loss + μ‖W‖_*, rank at most r"
GRID = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)

SHRINK = 0.8  # factor of L from one step to the next
CONTINUATION = 0.7  # factor of μ from one step to the next
SPARE = 5  # singular triplets beyond the rank: the block power iteration converges by the gap after them
ACCURACY = 1e-4  # of singular values relative to the largest; smaller values do not save steps
TOL = 1e-6  # it ends when the objective falls by less, relative to its value, in ten steps
CURVATURE = 2.0  # the largest L: ∇f = 2 (P_Ω(W) − Y)


def fit(data: Entries, rank: int, weight: float, record: Record) -> None:
    block = min(rank + SPARE, *data.shape)
    W = before = Point.zero(data)
    record(W.left, W.right)
    start: Floats = np.linalg.qr(np.random.default_rng(0).standard_normal((data.shape[1], block)))[0]
    _, s, start = leading(data, data.y, W.P, W.Q, start, 1, 1e-2)
    mu, L, t = 2 * s[0], CURVATURE, 1.0
    ratios = deque([0.0], maxlen=10)
    plateau = Plateau(TOL, 10)
    for _ in range(500):
        mu = max(CONTINUATION * mu, weight)
        t_next = (1 + np.sqrt(1 + 4 * t * t)) / 2
        L = max(SHRINK * L, *ratios)
        new, L, ratio, start = _step(data, W, before, (t - 1) / t_next, mu, L, rank, start)
        if t > 1 and new.objective(mu) > W.objective(mu):
            t_next, t = (1 + np.sqrt(5)) / 2, 1.0
            new, L, ratio, start = _step(data, W, W, 0.0, mu, L, rank, start)
        ratios.append(ratio)
        W, before, t = new, W, t_next
        record(W.left, W.right)
        if mu == weight and plateau.reached(W.objective(mu)):
            return


def _step(
    data: Entries, W: Point, before: Point, beta: float, mu: float, L: float, rank: int, start: Floats
) -> tuple[Point, float, float, Floats]:
    """The proximal step from the extrapolated point; with it L, the curvature along the step, and singular vectors."""
    left = np.hstack([(1 + beta) * W.s * W.P, -beta * before.s * before.P])
    right = np.hstack([W.Q, before.Q])
    residual = (1 + beta) * W.residual - beta * before.residual
    while True:
        P, s, start = leading(data, residual * (-2 / L), left, right, start, min(rank, start.shape[1]), ACCURACY)
        s = np.maximum(s[:rank] - mu / L, 0.0)
        k = np.count_nonzero(s)
        new = Point.of(data, P[:, :k], s[:k], start[:, :k])
        moved = _square(np.hstack([new.s * new.P, -left]), np.hstack([new.Q, right]))
        seen = new.residual - residual
        ratio = 2 * float(seen @ seen) / moved if moved > 0 else 0.0
        # L = 2 always suffices; a ratio above it is rounding, of a tiny step.
        if ratio <= L or L >= CURVATURE:
            return new, L, ratio, start
        L = min(max(L / SHRINK, ratio), CURVATURE)


def _square(left: Floats, right: Floats) -> float:
    """‖left @ rightᵀ‖²."""
    return float(np.sum((left.T @ left) * (right.T @ right)))
