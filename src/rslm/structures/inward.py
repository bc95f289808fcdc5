"""Moves a matrix into bounds in one pass over the factors, where there is no time to find the best one.

Let v̄ be the mean of the rows of V. Then w_jt = a_t m_j + y_jᵀf_t with m_j = x_jᵀv̄ and y, f orthogonal to v̄. The means
m_j are moved into the bounds of their rows, and the a_t into the interval that keeps all a_t m_j well within them. Then
the y_j and f_t are shortened until |y_j| |f_t|, in a norm that suits the rows, is at most the distance to the bounds.
"""

from __future__ import annotations

import numpy as np

from rslm.runtime.types import Floats

MARGIN = 0.1  # distance of the means from their bounds, relative to the distance between the bounds
SHARE = 0.5  # fraction of the room between the means and their bounds that a_t m_j may use
SAFE = 1.0 - 1e-9  # for rounding errors
LITTLE = 1e-4  # relative to the rows of V: dividing by a smaller mean would amplify rounding errors
QUANTILES = (0.5, 0.9, 1.0)  # of |f_t|: longer f_t are shortened to this. All are tried and the best one is used


def candidates(lower: Floats, upper: Floats, X: Floats, V: Floats) -> list[tuple[Floats, Floats]]:
    """Several X and V near the given ones for which X Vᵀ keeps the bounds, one `lower` and `upper` per row of X."""
    average = V.mean(axis=0)
    square = float(average @ average)
    if not (square > LITTLE**2 * float(np.mean(np.sum(V * V, axis=1))) and np.isfinite(X).all()):
        X, V = np.zeros(X.shape), np.zeros(V.shape)
        X[:, 0], V[:, 0] = np.clip(0.0, lower, upper), 1.0
        return [(X, V)]
    mean = X @ average
    Y, F = X - np.outer(mean / square, average), V - np.outer(V @ average / square, average)
    both = np.isfinite(lower) & np.isfinite(upper)
    margin = MARGIN * np.where(both, np.where(both, upper, 0.0) - np.where(both, lower, 0.0), np.median(np.abs(mean)))
    moved = np.clip(np.clip(mean, lower + margin, np.maximum(upper - margin, lower + margin)), lower, upper)
    shortest, longest = _factors(lower, upper, moved)
    along = np.clip(V @ average / square, shortest, longest)
    ends = np.outer([shortest, longest], moved)
    room = np.minimum(ends - lower, upper - ends).min(axis=0) * SAFE
    # |yᵀf| ≤ |R⁻ᵀy| |R f| with RᵀR = YᵀY, which is much less than |y| |f| where the rows share a direction.
    R = np.linalg.svd(Y, full_matrices=False)
    kept = R[1] > 1e-12 * max(float(R[1][0]), np.finfo(float).tiny)
    rows, columns = np.linalg.norm(R[0][:, kept], axis=1), np.linalg.norm((F @ R[2][kept].T) * R[1][kept], axis=1)
    found = []
    for most in np.unique(np.quantile(columns, QUANTILES)):
        with np.errstate(divide="ignore", invalid="ignore"):
            of_rows = np.nan_to_num(np.minimum(1.0, np.maximum(room, 0.0) / (most * rows)), nan=1.0)
            of_columns = np.nan_to_num(np.minimum(1.0, most / columns), nan=1.0)
        found.append(
            (
                np.outer(moved / square, average) + of_rows[:, None] * Y,
                np.outer(along, average) + of_columns[:, None] * F,
            )
        )
    return found


def _factors(lower: Floats, upper: Floats, mean: Floats) -> tuple[float, float]:
    """The smallest and the largest common factor of all means that keeps them well within their bounds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.where(mean > 0, lower, upper) / mean, np.where(mean > 0, upper, lower) / mean
    least, most = (float(side[mean != 0].max(initial=-np.inf)) for side in (low, -high))
    return 1.0 + SHARE * (max(least, 0.0) - 1.0), 1.0 + SHARE * (min(-most, 2.0) - 1.0)
