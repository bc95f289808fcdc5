"""A matrix within bounds at once, where there is no time for the best one: in one pass over the factors.

With the average column v̄, W = U Vᵀ is a part along it and a rest: w_jt = a_t m_j + y_jᵀf_t with m_j = x_jᵀv̄ and y, f
orthogonal to v̄. The means m_j are moved into the bounds of their rows, the a_t into what these leave, and rows and
columns of the rest are made shorter until |y_j| |f_t|, in a norm that suits the rows, is no more than what is left.
"""

from __future__ import annotations

import numpy as np

from rslm.runtime.types import Floats

ASIDE = 0.1  # part of the way between two bounds that the means keep from them
SHARE = 0.5  # of the room around the means that the part along the average column may take
SAFE = 1.0 - 1e-9  # for rounding errors
LITTLE = 1e-4  # an average this small relative to the columns says nothing, and would amplify rounding errors
QUANTILES = (0.5, 0.9, 1.0)  # of the lengths of columns up to which they are not made shorter: what fits best is taken


def candidates(lower: Floats, upper: Floats, X: Floats, V: Floats) -> list[tuple[Floats, Floats]]:
    """Several X and V whose products are within bounds of the rows of X, near the given ones."""
    average = V.mean(axis=0)
    square = float(average @ average)
    if not (square > LITTLE**2 * float(np.mean(np.sum(V * V, axis=1))) and np.isfinite(X).all()):
        X, V = np.zeros(X.shape), np.zeros(V.shape)
        X[:, 0], V[:, 0] = np.clip(0.0, lower, upper), 1.0
        return [(X, V)]
    mean = X @ average
    rest, beside = X - np.outer(mean / square, average), V - np.outer(V @ average / square, average)
    both = np.isfinite(lower) & np.isfinite(upper)
    aside = ASIDE * np.where(both, np.where(both, upper, 0.0) - np.where(both, lower, 0.0), np.median(np.abs(mean)))
    moved = np.clip(np.clip(mean, lower + aside, np.maximum(upper - aside, lower + aside)), lower, upper)
    shortest, longest = _factors(lower, upper, moved)
    along = np.clip(V @ average / square, shortest, longest)
    ends = np.outer([shortest, longest], moved)
    room = np.minimum(ends - lower, upper - ends).min(axis=0) * SAFE
    # |yᵀf| ≤ |R⁻ᵀy| |R f| with RᵀR = YᵀY, which is far less than |y| |f| where rows have a direction in common.
    R = np.linalg.svd(rest, full_matrices=False)
    kept = R[1] > 1e-12 * max(float(R[1][0]), np.finfo(float).tiny)
    rows, columns = np.linalg.norm(R[0][:, kept], axis=1), np.linalg.norm((beside @ R[2][kept].T) * R[1][kept], axis=1)
    found = []
    for most in np.unique(np.quantile(columns, QUANTILES)):
        with np.errstate(divide="ignore", invalid="ignore"):
            of_rows = np.nan_to_num(np.minimum(1.0, np.maximum(room, 0.0) / (most * rows)), nan=1.0)
            of_columns = np.nan_to_num(np.minimum(1.0, most / columns), nan=1.0)
        found.append(
            (
                np.outer(moved / square, average) + of_rows[:, None] * rest,
                np.outer(along, average) + of_columns[:, None] * beside,
            )
        )
    return found


def _factors(lower: Floats, upper: Floats, mean: Floats) -> tuple[float, float]:
    """The least and the largest factor of all means together that keeps them well within their bounds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.where(mean > 0, lower, upper) / mean, np.where(mean > 0, upper, lower) / mean
    least, most = (float(side[mean != 0].max(initial=-np.inf)) for side in (low, -high))
    return 1.0 + SHARE * (max(least, 0.0) - 1.0), 1.0 + SHARE * (min(-most, 2.0) - 1.0)
