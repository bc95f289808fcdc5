"""How many exponentials: the least of n log(squares/n) + p log n, Schwarz's criterion.

An order k in m channels has p = k(1 + m) parameters: k poles, and k amplitudes in every channel.
"""

from __future__ import annotations

import numpy as np

from rslm._typing import Floats

EXACT = 1e-9  # an error this small beside the samples is not noise


def criterion(squares: float, order: int, samples: int, channels: int, largest: float) -> float:
    """Schwarz's criterion; `largest` is the sum of squares of the samples themselves."""
    floor = max(EXACT**2 * largest, np.finfo(float).tiny)
    return samples * float(np.log(max(squares, floor) / samples)) + order * (1 + channels) * float(np.log(samples))


def best_order(squares: Floats, samples: int, channels: int) -> int:
    """The order with the least criterion; squares[k] is what order k leaves, squares[0] the samples' own."""
    values = [criterion(float(s), k, samples, channels, float(squares[0])) for k, s in enumerate(squares)]
    return int(np.argmin(values))
