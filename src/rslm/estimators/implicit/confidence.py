"""From what was stored of users and items to ones with confidences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from rslm.data import ObservedMatrix
from rslm.data.convert import place_of
from rslm.data.weights import none_if_ones
from rslm.kernels.scratch import scratch_like
from rslm.runtime.magnitudes import LARGEST, LEAST
from rslm.runtime.types import Floats

BLOCK = 1 << 20  # entries processed at a time
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

    Weights that the data have multiply the confidences. Arrays on disk stay on disk, and nothing is copied if all
    values are ones, whose confidence is 1.
    """
    taken = positive(data)
    ones = all((taken.values[at] == 1.0).all() for at in _blocks(taken))
    weights = _confidences(taken, "ones" if ones else confidence)
    if ones:
        return replace(taken, weights=weights)
    values = scratch_like(taken.values)
    values[:] = 1.0
    return replace(taken, values=values, weights=weights)


def _confidences(taken: ObservedMatrix, confidence: str) -> Floats | None:
    """The weights of all entries; None if they are 1."""
    if confidence == "ones" and taken.weights is None:
        return None
    weights = scratch_like(taken.values, np.float64)
    for at in _blocks(taken):
        found = CONFIDENCES[confidence](np.asarray(taken.values[at], dtype=np.float64))
        weights[at] = found if taken.weights is None else found * taken.weights[at]
        _check_range(taken, weights[at], at.start)
    return none_if_ones(weights)


def positive(data: ObservedMatrix) -> ObservedMatrix:
    """The entries with positive values; a negative one is an error."""
    zeros = False
    for at in _blocks(data):
        values = data.values[at]
        if (values < 0).any():
            k = at.start + int(np.argmax(values < 0))
            raise ValueError(
                f"Negative values in data: {data.values[k]:g} at {_place(data, k)}. Counts, ones or confidences are "
                "needed, 0 for what was not taken; use MatrixCompletion for values that may be negative"
            )
        zeros = zeros or not values.all()
    if not zeros:
        return data
    return data.subset(np.greater(data.values, 0, out=scratch_like(data.values, np.bool_)))


def _check_range(data: ObservedMatrix, weights: Floats, first: int) -> None:
    """An error if the confidence of an entry, the `first` one or one after it, is out of range."""
    right = (weights >= LEAST) & (weights <= LARGEST)
    if not right.all():
        k = int(np.argmin(right))
        raise ValueError(
            f"the confidence of {data.values[first + k]:g} at {_place(data, first + k)} "
            f"is {weights[k]:g}, but a number from {LEAST:g} to {LARGEST:g} is needed; scale the data, or use "
            "confidence='ones'"
        )


def _blocks(data: ObservedMatrix) -> Iterator[slice]:
    """Slices of the entries, so that no temporary array is as long as the data."""
    return (slice(k, min(k + BLOCK, len(data))) for k in range(0, len(data), BLOCK))


def _place(data: ObservedMatrix, at: int) -> str:
    """The row and the column of an entry, in words."""
    return place_of(at, data.indptr, data.index, data.row_ids, data.col_ids)
