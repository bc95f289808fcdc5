"""Ridges of row and column effects from the variances of a two-way model, by the method of moments.

With y_ij = μ + b_i + c_j + e_ij, the mean of a row with n entries varies by σ_b² + σ²/n around μ. The best ridge of b,
in observations, is σ²/σ_b²: with it a row with that many entries is shrunk half-way to the mean.
"""

from __future__ import annotations

import numpy as np

from rslm.data import ObservedMatrix
from rslm.runtime.types import Floats

ROUNDS = 4
STRONGEST, WEAKEST = 1e4, 1e-2  # ridges in observations
TINY = 1e-12  # variance relative to that of the data below which it counts as 0


def usual_ridges(data: ObservedMatrix) -> tuple[float, float]:
    """The ridges of the row and the column effects of a matrix, in observations."""
    y = np.asarray(data.values, dtype=np.float64)
    scale = float(np.abs(y).max(initial=0.0)) or 1.0
    y = y / scale
    w = np.ones(len(y)) if data.weights is None else data.weights / float(data.weights.mean())
    y = y - np.average(y, weights=w)
    total = float(np.average(y * y, weights=w))
    if total <= TINY * TINY:
        return 1.0, 1.0
    places = [np.asarray(places, dtype=np.int64) for places in (data.rows_of_entries(), data.index)]
    ridges = [1.0, 1.0]
    effects: list[Floats] = [np.zeros(len(y)), np.zeros(len(y))]
    variances = [0.5 * total, 0.5 * total]
    for _ in range(ROUNDS):
        for side, (at, size) in enumerate(zip(places, data.shape, strict=True)):
            left = y - effects[1 - side]
            counts = np.bincount(at, w, size).astype(np.float64)
            means = np.bincount(at, w * left, size) / np.maximum(counts, np.finfo(float).tiny)
            within = left - means[at]
            noise = _noise(within, w, counts)
            variances[side] = _between(means, counts, noise, total)
            ridges[side] = float(np.clip(noise / max(variances[side], TINY * total), WEAKEST, STRONGEST))
            effects[side] = (means * counts / (counts + ridges[side]))[at]
    return ridges[0], ridges[1]


def _noise(within: Floats, w: Floats, counts: Floats) -> float:
    """σ², from what is left within groups; groups of one entry leave nothing and say nothing."""
    freedom = float(counts.sum() - np.count_nonzero(counts))
    squares = float(np.sum(w * within * within))
    return squares / freedom if freedom > 0 else 0.5 * squares


def _between(means: Floats, counts: Floats, noise: float, total: float) -> float:
    """σ_b², from the variance of the means of groups minus what noise adds to it."""
    filled = counts > 0
    n, m = counts[filled], means[filled]
    if len(n) < 2:
        return 0.0
    centre = float(np.average(m, weights=n))
    spread = float(np.sum(n * (m - centre) ** 2)) - (len(n) - 1) * noise
    weight = float(n.sum() - np.sum(n * n) / n.sum())
    return max(spread / weight, 0.0) if weight > TINY else 0.5 * total
