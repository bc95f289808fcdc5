"""Times of samples: whether they are evenly spaced, and places on an even grid if some samples are absent."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rslm.runtime.types import Floats, Indices64

UNEVEN = 1e-3  # deviations of times from an even grid up to this part of a step are rounding errors
MOST_ABSENT = 100  # steps for every sample: a grid with more would be almost empty


class UnevenTimesError(ValueError):
    """Times are not evenly spaced. `positions` are the places of the samples on an even grid, or None if there is none.

    Samples y are placed by ``grid = np.full(positions[-1] + 1, np.nan); grid[positions] = y``. The first step that is
    not the usual one is that from times[at] to times[at + 1].
    """

    def __init__(self, message: str, positions: Indices64 | None, at: int) -> None:
        super().__init__(message)
        self.positions = positions
        self.at = at


def check_even(times: ArrayLike) -> float | np.timedelta64:
    """The step between times, which are numbers or datetimes; `UnevenTimesError` if they are not evenly spaced."""
    given = np.asarray(times)
    if given.ndim != 1 or len(given) < 2:
        raise ValueError(f"times must be one-dimensional, with at least two of them; got shape {given.shape}")
    since, unit = _since_first(given)
    steps = np.diff(since)
    if (steps <= 0).any():
        k = int(np.argmax(steps <= 0))
        what = "is repeated" if steps[k] == 0 else "is earlier than the one before"
        raise ValueError(f"times must increase, but times[{k + 1}], {given[k + 1]}, {what}; sort them and drop repeats")
    base = float(np.median(steps))
    mean = since[-1] / len(steps)
    if np.abs(since - mean * np.arange(len(since))).max() <= UNEVEN * mean:
        return mean if unit is None else np.timedelta64(round(mean), unit)
    off = np.abs(steps - base)
    k = int(np.argmax(off > min(UNEVEN * base, 0.99 * float(off.max()))))  # small deviations may add up
    where = (
        f"the {len(given)} times are not evenly spaced: from times[{k}], {given[k]}, to times[{k + 1}], "
        f"{given[k + 1]}, it is {steps[k] / base:.6g} of the usual step"
    )
    positions = _places(since, steps)
    if positions is None:
        raise UnevenTimesError(
            f"{where}. Interpolate the samples at evenly spaced times, or average them in bins", None, k
        )
    size = int(positions[-1]) + 1
    raise UnevenTimesError(
        f"{where}. All steps are multiples of the least one, so samples are absent, {size - len(given)} of them: put "
        f"NaN in their places, grid = np.full({size}, np.nan); grid[error.positions] = y",
        positions,
        k,
    )


def _since_first(times: NDArray[Any]) -> tuple[Floats, Literal["M", "ns"] | None]:
    """Times since the first one, and their unit: months, if all dates are the same day of a month or all the last."""
    if times.dtype.kind == "M":
        missing = np.isnat(times)
    elif times.dtype.kind in "fiu":
        missing = ~np.isfinite(times)
    else:
        raise TypeError(
            f"times have dtype {times.dtype}, but numbers or datetimes are needed; use np.datetime64 for dates"
        )
    if missing.any():
        raise ValueError(f"times[{int(np.argmax(missing))}] is missing or infinite; every sample needs a time")
    if times.dtype.kind != "M":
        return times.astype(np.float64) - float(times[0]), None
    for later in (0, 1):  # the day after the last one of a month is the first one
        days = times + np.timedelta64(later, "D")
        months = days.astype("datetime64[M]")
        within = days - months
        if (within == within[0]).all():
            return (months - months[0]).astype(np.float64), "M"
    return (times - times[0]) / np.timedelta64(1, "ns"), "ns"


def _places(since: Floats, steps: Floats) -> Indices64 | None:
    """The places of the samples on a grid of the least step, if all times are on it."""
    whole = np.round(steps / float(steps.min()))
    if whole.sum() > MOST_ABSENT * len(since):
        return None
    places = np.concatenate([[0.0], np.cumsum(whole)])
    step = since[-1] / places[-1]
    if np.abs(since - step * places).max() > UNEVEN * step:
        return None
    return places.astype(np.int64)
