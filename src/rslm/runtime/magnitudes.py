"""The range of numbers that is supported: squares of products of data, features and C must be finite."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np

from rslm.runtime.types import Floats

LARGEST = 1e40  # of data, features, bounds, C and weights; a square of C · feature · datum is then at most 1e240
LEAST = 1.0 / LARGEST  # of C and weights, and of the largest datum
NOTHING = 1e-20 * LEAST  # smaller data are below the rounding errors of the largest datum
BLOCK = 1 << 20  # numbers checked at a time, so that no temporary array is as large as the data


def as_float(number: object) -> float:
    """A real number as a float, NaN for anything else."""
    if isinstance(number, bool) or not isinstance(number, Real):
        return math.nan
    try:
        return float(number)
    except OverflowError:  # an integer too large for a float
        return math.inf


def workable(values: Floats) -> Floats:
    """The observed values, with the tiniest ones set to zero; an error if the largest one is out of range."""
    largest, tiny = 0.0, False
    for k in range(0, len(values), BLOCK):
        size = np.abs(values[k : k + BLOCK])
        largest = max(largest, float(size.max(initial=0.0)))
        tiny = tiny or bool(((size > 0) & (size < NOTHING)).any())
    if largest > LARGEST or 0.0 < largest < LEAST:
        what = "whose squares are not finite" if largest > 1.0 else "whose squares are zero"
        raise ValueError(
            f"the largest of {len(values)} observed values is {largest:.3g}, {what}; multiply the data by a number "
            f"that brings it between {LEAST:g} and {LARGEST:g}"
        )
    return without_tiny(values) if tiny else values


def without_tiny(values: Floats) -> Floats:
    """The values, with those that are negligible relative to the supported range set to zero."""
    return np.where(np.abs(values) < NOTHING, values.dtype.type(0.0), values)
