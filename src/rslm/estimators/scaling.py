"""Data of extreme magnitude, whose squares would leave the range of floating-point numbers."""

from __future__ import annotations

import math

import numpy as np

from rslm._typing import Floats

SAFE_EXPONENT = 100  # squares, sums of them and their products with C stay far inside ±1023


def extreme_scale(values: Floats) -> float:
    """A power of two to divide the values by: 1 for ordinary data, so that nothing is rounded in any case."""
    largest = float(np.max(np.abs(values), initial=0.0))
    exponent = math.frexp(largest)[1]
    return 1.0 if largest == 0.0 or abs(exponent) <= SAFE_EXPONENT else math.ldexp(1.0, exponent)
