"""The order of periods, and gaps between them."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import numpy as np

from rslm.data.labels import Ids, number_ids, show_id
from rslm.runtime.types import Indices32, Indices64

FRIDAY = 4  # days of the week from Monday, 0


def number_periods(ids: Ids, what: str) -> tuple[Ids, Indices32]:
    """The different periods in the order of time, and the position of each given one among them."""
    periods, position = number_ids(ids, what)
    if not _are_texts(periods):
        return periods, position
    if not all(re.search(r"\d", text) for text in periods):
        without = next(text for text in periods if not re.search(r"\d", text))
        raise ValueError(
            f"{what} holds periods such as {str(without)!r}, and their order in time is not known; give numbers or "
            "dates"
        )
    # Numbers within texts count as numbers, so that 'week 10' is after 'week 9'.
    order = sorted(range(len(periods)), key=lambda k: _parts(str(periods[k])))
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return periods[order], place[position]


def check_regular(periods: Ids, what: str) -> None:
    """Periods must be in order and equally spaced, or relative times would be wrong."""
    at = _counted(periods)
    if at is None or len(at) < 2:
        return
    steps = np.diff(at)
    if (steps <= 0).any():
        k = int(np.argmax(steps <= 0))
        raise ValueError(
            f"{what} must be in the order of time; {show_id(periods, k + 1)} follows {show_id(periods, k)}. Sort them"
        )
    usual = int(np.gcd.reduce(steps))
    gaps = np.flatnonzero(steps > usual)
    if len(gaps) and 2 * len(gaps) < len(steps):
        k = int(gaps[0])
        lost = int(steps[k]) // usual - 1
        raise ValueError(
            f"{what} has a gap: {lost} period{'s are' if lost > 1 else ' is'} missing between {show_id(periods, k)} "
            f"and {show_id(periods, k + 1)}. Add them with empty outcomes, or number the periods without gaps"
        )


def are_dates(ids: Ids) -> bool:
    """Whether ids are dates or periods of a calendar."""
    if ids.dtype.kind in "MO":
        return ids.dtype.kind == "M" or all(isinstance(day, date) or type(day).__name__ == "Period" for day in ids)
    return False


def _counted(periods: Ids) -> Indices64 | None:
    """Whole numbers that grow by the same amount from each period to the next; None if that cannot be said."""
    if periods.dtype.kind in "iu":
        return periods.astype(np.int64)
    if periods.dtype.kind == "f":
        return periods.astype(np.int64) if (periods == np.round(periods)).all() else None
    if periods.dtype.kind == "M":
        return _of_dates(periods)
    listed = periods.tolist()
    if _are_texts(periods):
        if all(re.fullmatch(r"\d{1,9}", text) for text in listed):
            return np.array([int(text) for text in listed])
        iso = all(re.fullmatch(r"\d{4}-\d\d(-\d\d)?", text) for text in listed)
        try:
            return _of_dates(np.array(listed, dtype="datetime64[D]")) if iso else None
        except ValueError:  # there is no month 13
            return None
    if all(isinstance(day, date) and getattr(day, "tzinfo", None) is None for day in listed):
        return _of_dates(np.array(listed, dtype="datetime64[us]"))
    return None


def _of_dates(times: Any) -> Indices64 | None:
    days, months = times.astype("datetime64[D]"), times.astype("datetime64[M]")
    if (days != times).any():
        return np.asarray(times.astype("datetime64[us]").astype(np.int64))
    of_month = days - months.astype("datetime64[D]")
    last = (days + np.timedelta64(1, "D")).astype("datetime64[M]") > months
    if (of_month == of_month[0]).all() or last.all():
        return np.asarray(months.astype(np.int64))
    of_week = (days.astype(np.int64) + 3) % 7  # 1970 began on a Thursday
    if of_week.max() <= FRIDAY and of_week.min() < of_week.max():
        return None  # days of business, of which holidays are missing
    return np.asarray(days.astype(np.int64))


def _are_texts(periods: Ids) -> bool:
    return all(isinstance(period, str) for period in periods)


def _parts(text: str) -> list[str | int]:
    """Texts and numbers in turn."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", text)]
