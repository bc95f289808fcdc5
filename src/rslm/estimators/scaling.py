"""Data of extreme magnitude, whose squares would leave the range of floating-point numbers; weights of entry counts."""

from __future__ import annotations

import math

import numpy as np

from rslm.losses import Loss
from rslm.runtime.types import Floats, Indices64
from rslm.structures import Box

SAFE_EXPONENT = 100  # squares, sums of them and their products with C stay far inside ±1023


def extreme_scale(values: Floats) -> float:
    """The power of two by which values are divided before solving; 1 for data of ordinary size. It rounds nothing."""
    largest = float(np.max(np.abs(values), initial=0.0))
    exponent = math.frexp(largest)[1]
    return 1.0 if largest == 0.0 or abs(exponent) <= SAFE_EXPONENT else math.ldexp(1.0, min(exponent, 1023))


def scale_of(largest: float, box: Box | None, loss: Loss) -> float:
    """Scale applied before solving (square loss only), by the largest value and by bounds that exclude 0."""
    bounds = np.zeros(0) if box is None else box.nearest_to_zero()
    return extreme_scale(np.append(bounds, largest)) if loss.quadratic else 1.0


def in_units(values: Floats, scale: float) -> Floats:
    """Values of the objective for data that are `scale` times as large; they may overflow."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(values * scale * scale)


def count_weights(counts: Indices64 | Floats, mean: float, weighting: float) -> Floats:
    """Weights of rows or columns in the weighted trace norm, from their numbers of entries relative to the average."""
    return np.asarray((np.maximum(counts, 1) / mean) ** weighting)
