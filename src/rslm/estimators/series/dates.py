"""Dates in the index of a pandas Series or DataFrame: samples must be evenly spaced, by the clock or the calendar."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from rslm.estimators.series.sampling import UnevenTimesError, check_even
from rslm.runtime.types import Indices64

FRIDAY = 4  # days of the week from Monday, 0
SHORTEST_DAY = np.timedelta64(23, "h")
LEAST_DATES = 3  # dates from which pandas infers a frequency


def check_dates(samples: Any, what: str) -> None:
    """An error if `samples` have a DatetimeIndex or PeriodIndex that is not in order or not evenly spaced."""
    index: Any = getattr(samples, "index", None)
    of_periods = type(index).__name__ == "PeriodIndex"
    if not of_periods and type(index).__name__ != "DatetimeIndex":
        return
    if index.hasnans:
        raise ValueError(f"the index of {what} has missing dates (NaT); every sample needs a date. Leave these out")
    if len(index) < 2:
        return
    if not index.is_unique:
        again = index[index.duplicated()]
        raise ValueError(
            f"{len(again)} dates in the index of {what} are repeated, the first is {again[0]}; one sample for each "
            f"date is needed. Average them: {what}.groupby(level=0).mean()"
        )
    if not index.is_monotonic_increasing:
        k = int(np.argmax(np.asarray(index[1:] < index[:-1])))
        raise ValueError(
            f"the dates in the index of {what} are not in order: {index[k + 1]} follows {index[k]}. Sort them: "
            f"{what}.sort_index()"
        )
    if not of_periods and index.tz is not None and (index[1:] - index[:-1]).min() >= SHORTEST_DAY:
        index = index.tz_localize(None)  # days are those of the clock there, also where one has 23 or 25 hours
    if not of_periods and (index.freq is not None or _inferred(index) is not None):
        return  # also business days, quarters and all else of the calendar
    try:
        check_even(np.asarray(index.astype("int64")) if of_periods else _times(index))
    except UnevenTimesError as error:
        raise ValueError(_message(index, error, what, of_periods)) from None


def _inferred(index: Any) -> str | None:
    """The frequency that pandas finds, by name; None if it finds none."""
    if len(index) < LEAST_DATES:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it will be an object instead of its name, which is taken from both
        found = index.inferred_freq
    return None if found is None else str(getattr(found, "freqstr", found))


def _of_business(index: Any) -> bool:
    """Whether these are days of business: some follow one another, and none is on a weekend."""
    steps = np.diff(index.to_numpy(dtype="datetime64[ns]"))
    return bool(index.day_of_week.max() <= FRIDAY and steps.min() == np.timedelta64(1, "D"))


def _times(index: Any) -> Any:
    times = index.to_numpy(dtype="datetime64[ns]")
    if not _of_business(index):
        return times
    days = times.astype("datetime64[D]")
    return np.busday_count(days[0], days)


def _message(index: Any, error: UnevenTimesError, what: str, of_periods: bool) -> str:
    k = error.at
    where = (
        f"the dates in the index of {what} are not evenly spaced: {index[k + 1]} follows {index[k]}, which is not the "
        "usual step. "
    )
    as_they_are = f"To fit the samples as if they were evenly spaced, give {what}.to_numpy()"
    if error.positions is None:
        return f"{where}Average the samples in bins, as in {what}.resample('1D').mean(). {as_they_are}"
    size = int(error.positions[-1]) + 1
    if of_periods:
        fill = f"{what}.reindex(pd.period_range({what}.index[0], {what}.index[-1]))"
    else:
        fill = f"{what}.asfreq({_frequency(index, np.diff(error.positions))!r})"
    return (
        f"{where}{size - len(index)} of {size} samples are absent. Put NaN in their places, which is missing: {fill}. "
        f"{as_they_are}"
    )


def _frequency(index: Any, steps: Indices64) -> str:
    """The name that pandas has for the least step, of which the others are multiples."""
    if _of_business(index):
        return "B"
    breaks = np.flatnonzero(steps != 1) + 1
    starts, ends = np.append(0, breaks), np.append(breaks, len(index))
    longest = int(np.argmax(ends - starts))
    stretch = index[starts[longest] : ends[longest]]
    found = _inferred(stretch)
    least = np.diff(index.to_numpy(dtype="datetime64[ns]")).min() / np.timedelta64(1, "s")
    return f"{least:g}s" if found is None else found
