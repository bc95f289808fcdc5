"""A lower bound on the sum of squares of any sum of k exponentials: how much better another fit could be.

The Hankel matrix of such a signal has rank k, so its distance from the Hankel matrix of the samples is at least that of
the nearest matrix of rank k, with any window:

    Σ_t c_t (y_t − h_t)²  ≥  σ_{k+1}² + σ_{k+2}² + …,

where c_t ≤ min(window, windows) counts how often a sample is in the matrix. This needs no convexity: it holds for every
signal of the order, where the duality gap of the trace norm compares with signals of any order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.estimators.series.subspace import gram_of_windows
from rslm.estimators.series.whitening import Whitening

WIDEST = 256  # windows are tried up to here: then the bound is near its best, and cheap
SHORTEST = 4  # of the windows that are tried


def least_squares_bound(Y: NDArray[Any], order: int) -> float:
    """No sum of `order` exponentials has a smaller sum of squares; Y is (channels, n), none missing."""
    n = Y.shape[1]
    found, window = 0.0, max(SHORTEST, order + 2)
    while window <= min(WIDEST, n // 2):
        squares = np.linalg.eigvalsh(gram_of_windows(Y, window))
        rounding = np.finfo(float).eps * n * float(squares[-1])
        least = float(np.maximum(squares[: window - order] - rounding, 0.0).sum())
        found = max(found, least / min(window, n - window + 1))
        window *= 2
    return found


def excess_bound(Y: NDArray[Any], signal: NDArray[Any], whitenings: tuple[Whitening, ...], order: int) -> float:
    """How far the sum of squares may be above the least one, relatively; infinite if nothing is known.

    With noise that has memory, squares are those of its innovations, without the first samples.
    """
    if np.isnan(Y).any() or len(Y) > 1:
        return np.inf
    lost = len(whitenings[0].reflections)
    white, left = (whitenings[0](x[0])[None, lost:] for x in (Y, Y - signal))
    least = least_squares_bound(white, order)
    found = float(np.sum(np.abs(left) ** 2))
    return max(found / least - 1.0, 0.0) if least > 0 else np.inf
