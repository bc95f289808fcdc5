"""Data of extreme magnitude, whose squares would leave the range of floating-point numbers; weights of entry counts."""

from __future__ import annotations

import math

import numpy as np

from rslm._typing import Floats, Indices64

SAFE_EXPONENT = 100  # squares, sums of them and their products with C stay far inside ±1023


def extreme_scale(values: Floats) -> float:
    """A power of two to divide the values by: 1 for ordinary data, so that nothing is rounded in any case."""
    largest = float(np.max(np.abs(values), initial=0.0))
    exponent = math.frexp(largest)[1]
    return 1.0 if largest == 0.0 or abs(exponent) <= SAFE_EXPONENT else math.ldexp(1.0, exponent)


def count_weights(counts: Indices64, mean: float, weighting: float) -> Floats:
    """Weights of rows or columns with so many entries in the weighted trace norm, relative to the average."""
    return np.asarray((np.maximum(counts, 1) / mean) ** weighting)
