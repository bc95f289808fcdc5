"""Data of extreme magnitude, whose squares would leave the range of floating-point numbers; weights of entry counts."""

from __future__ import annotations

import math

import numpy as np

from rslm.data import ObservedMatrix
from rslm.runtime.types import Floats, Indices64
from rslm.structures import Box

SAFE_EXPONENT = 100  # squares, sums of them and their products with C stay far inside ±1023


def extreme_scale(values: Floats) -> float:
    """The power of two by which values are divided before solving; 1 for data of ordinary size. It rounds nothing."""
    largest = float(np.max(np.abs(values), initial=0.0))
    exponent = math.frexp(largest)[1]
    return 1.0 if largest == 0.0 or abs(exponent) <= SAFE_EXPONENT else math.ldexp(1.0, min(exponent, 1023))


def scale_of(data: ObservedMatrix, box: Box | None) -> float:
    """The `extreme_scale` of data and of bounds that exclude 0."""
    size = max(float(data.values.max(initial=0.0)), -float(data.values.min(initial=0.0)))
    return extreme_scale(np.array([size]) if box is None else np.append(box.nearest_to_zero(), size))


def in_units(values: Floats, scale: float) -> Floats:
    """Values of the objective for data that are `scale` times as large; they may overflow."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(values * scale * scale)


def count_weights(counts: Indices64, mean: float, weighting: float) -> Floats:
    """Weights of rows or columns in the weighted trace norm, from their numbers of entries relative to the average."""
    return np.asarray((np.maximum(counts, 1) / mean) ** weighting)
