"""Choice of the order: the minimum of n log(squares/n) + p log n · n/(n − p − 2), BIC corrected for small samples.

Order k in m channels has p = k(1 + m) parameters: k poles, and k amplitudes in every channel.
"""

from __future__ import annotations

import math

import numpy as np

from rslm.estimators.series.exponentials import Complexes
from rslm.runtime.types import Floats

GROWTH = 1e6  # largest growth of an exponential over the series, unless there is no noise
EXACT = 1e-9  # an error this small relative to the samples is not noise


def criterion(squares: float, order: int, samples: int, channels: int, largest: float) -> float:
    """Schwarz's criterion; `largest` is the sum of squares of the samples themselves."""
    p = order * (1 + channels)
    if p >= samples - 2:
        return math.inf
    floor = max(EXACT**2 * largest, np.finfo(float).tiny)
    return samples * (math.log(max(squares, floor) / samples) + p * math.log(samples) / (samples - p - 2))


def too_steep(poles: Complexes, n: int) -> bool:
    """Whether an exponential grows so much over n samples that it fits only the last few, and forecasts explode."""
    return bool(len(poles)) and float(np.abs(poles).max()) > GROWTH ** (1.0 / n)


def is_exact(squares: float, largest: float) -> bool:
    """Whether the residuals are only rounding errors."""
    return squares <= EXACT**2 * largest


def best_order(squares: Floats, samples: int, channels: int) -> int:
    """The order with the least criterion; squares[k] is the sum of squared residuals of order k."""
    values = [criterion(float(s), k, samples, channels, float(squares[0])) for k, s in enumerate(squares)]
    return int(np.argmin(values))
