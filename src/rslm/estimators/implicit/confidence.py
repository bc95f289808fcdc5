"""From what was stored of users and items to ones with confidences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rslm.data import ObservedMatrix
from rslm.data.convert import place_of
from rslm.data.weights import none_if_ones
from rslm.runtime.magnitudes import LARGEST, LEAST
from rslm.runtime.types import Floats

TIMES = 1e7  # dates as 20240501 and seconds since 1970 are above it, and do not differ by a factor of 2
#: The weight ω of an entry, from the value that is stored. A value of 1 has weight 1.
CONFIDENCES: dict[str, Callable[[Floats], Floats]] = {
    "linear": lambda x: x,
    "log": lambda x: np.asarray(np.log2(1.0 + x)),
    "ones": np.ones_like,
}


def check_confidence(confidence: Any) -> None:
    """Raise an error unless the parameter is one of CONFIDENCES."""
    if not (isinstance(confidence, str) and confidence in CONFIDENCES):
        raise ValueError(f"confidence must be one of {sorted(CONFIDENCES)}; got {confidence!r}")


def look_like_times(data: ObservedMatrix) -> bool:
    """Whether the values are times that were read as counts."""
    return len(data) > 1 and bool(TIMES <= data.values.min() >= 0.5 * data.values.max())


def interactions(data: ObservedMatrix, confidence: str) -> ObservedMatrix:
    """Ones where a value is positive, weighted by the confidence in them; a stored zero is the same as no entry.

    Weights that the data have multiply the confidences.
    """
    negative = np.flatnonzero(data.values < 0)
    if len(negative):
        at = int(negative[0])
        raise ValueError(
            f"Negative values in data: {data.values[at]:g} at {_place(data, at)}. Counts, ones or confidences are "
            "needed, 0 for what was not taken; use MatrixCompletion for values that may be negative"
        )
    positive = data.values > 0
    taken = data if positive.all() else data.subset(positive)
    values = np.asarray(taken.values, dtype=np.float64)
    weights = CONFIDENCES[confidence](values)
    weights = weights if taken.weights is None else weights * taken.weights
    if len(weights) and not (weights.min() >= LEAST and weights.max() <= LARGEST):
        at = int(np.argmax((weights < LEAST) | (weights > LARGEST)))
        raise ValueError(
            f"the confidence of {taken.values[at]:g} at {_place(taken, at)} "
            f"is {weights[at]:g}, but a number from {LEAST:g} to {LARGEST:g} is needed; scale the data, or use "
            "confidence='ones'"
        )
    return replace(taken, values=np.ones(len(taken)), weights=none_if_ones(weights))


def _place(data: ObservedMatrix, at: int) -> str:
    """The row and the column of an entry, in words."""
    return place_of(at, data.indptr, data.index, data.row_ids, data.col_ids)
