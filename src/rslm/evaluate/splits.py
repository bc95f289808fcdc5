"""Splits of what users have done, as recommenders are judged by; `rslm.data.holdout` splits entries at random.

All parts are made of the entries of one matrix, and keep its ids and weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data import ObservedMatrix, Seed, as_generator
from rslm.data.weights import in_which_order
from rslm.runtime.types import Indices64

Parts = tuple[ObservedMatrix, ObservedMatrix]


def holdout_per_user(data: Any, fraction: float, random_state: Seed = None) -> Parts:
    """Hold out a fraction of the entries of every row, chosen at random: returns (train, held out).

    Of every row with two entries or more, at least one is held out and at least one is kept; a row with one entry
    keeps it.

    Parameters
    ----------
    data : ObservedMatrix, or any other matrix that `fit` accepts
    fraction : float between 0 and 1
        The fraction of the entries of a row that is held out.
    random_state : int, RandomState, Generator or None
        Seed of the random choice.

    Returns
    -------
    train, held_out : ObservedMatrix
        Both have the shape of `data`.
    """
    check_fraction(fraction, "fraction")
    data = ObservedMatrix.from_any(data)
    counts = data.row_counts()
    held = np.clip(np.rint(fraction * counts), 1, np.maximum(counts - 1, 0)).astype(np.int64)
    return _last_of_rows(data, as_generator(random_state).random(len(data)), held)


def holdout_last(data: Any, times: Any, n: int = 1) -> Parts:
    """Hold out the last n entries of every row, by time: returns (train, held out).

    A row with n entries or fewer keeps them all. Of entries with the same time, the one with the larger column is
    later.

    Parameters
    ----------
    data : ObservedMatrix, or any other matrix that `fit` accepts
    times : ObservedMatrix with the same entries as `data`, or array with one time for every entry
        Numbers, or dates of NumPy. For a table, give the matrix ``ObservedMatrix.from_ratings(users, items, times)``.
        An array is in the order of `data.values`, row by row; it is refused if the entries of `data` were given in
        another order, as those of most tables are.
    n : int, default=1
        Number of entries of a row that are held out.

    Returns
    -------
    train, held_out : ObservedMatrix
        Both have the shape of `data`.
    """
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1:
        raise ValueError(f"n must be a whole number ≥ 1; got {n!r}")
    data = ObservedMatrix.from_any(data)
    return _last_of_rows(data, _times(data, times), np.where(data.row_counts() > n, n, 0))


def holdout_after(data: Any, times: Any, start: Any) -> Parts:
    """Hold out all entries from a time on: returns (train, held out).

    A row may have no entries in one of the two parts.

    Parameters
    ----------
    data : ObservedMatrix, or any other matrix that `fit` accepts
    times : as in `holdout_last`
    start : number or date, such as "2024-05-01"
        Entries at this time or later are held out. `np.quantile(times, 0.8)` holds out about a fifth.

    Returns
    -------
    train, held_out : ObservedMatrix
        Both have the shape of `data`.
    """
    data = ObservedMatrix.from_any(data)
    when = _times(data, times)
    later = when >= _time(start, when)
    if later.all() or not later.any():
        raise ValueError(
            f"start is {start}, but the times are from {when.min()} to {when.max()}, so that one part would be empty; "
            "give a time between them"
        )
    return _parts(data, later)


def holdout_users(
    data: Any, fraction: float, fold_in: float = 0.8, random_state: Seed = None
) -> tuple[ObservedMatrix, ObservedMatrix, ObservedMatrix]:
    """Hold out a fraction of the rows, chosen at random, as new users: returns (train, fold in, held out).

    The model is fitted to `train`. Of a new user it is shown the entries in `fold_in`, and has to find those in
    `held_out`: `rank_new_users(model, fold_in, k)`. Only rows with two entries or more become new users.

    Parameters
    ----------
    data : ObservedMatrix, or any other matrix that `fit` accepts
    fraction : float between 0 and 1
        The fraction of the rows that is held out.
    fold_in : float between 0 and 1, default=0.8
        The fraction of the entries of a new user that is shown to the model.
    random_state : int, RandomState, Generator or None
        Seed of the random choices.

    Returns
    -------
    train, fold_in, held_out : ObservedMatrix
        `train` has the other rows; `fold_in` and `held_out` have those of the new users. Rows keep their ids; if there
        are none, their positions in `data` become ids.
    """
    check_fraction(fraction, "fraction")
    check_fraction(fold_in, "fold_in")
    data = ObservedMatrix.from_any(data)
    able = np.flatnonzero(data.row_counts() >= 2)
    count = min(round(fraction * data.shape[0]), len(able))
    if not 0 < count < data.shape[0]:
        raise ValueError(
            f"fraction {fraction} of {data.shape[0]} rows, {len(able)} of them with two entries or more, leaves one "
            "part empty. Use a fraction nearer to 0.5, or more rows."
        )
    rng = as_generator(random_state)
    new = np.zeros(data.shape[0], dtype=np.bool_)
    new[rng.choice(able, count, replace=False, shuffle=False)] = True
    return _of_rows(data, ~new), *holdout_per_user(_of_rows(data, new), 1.0 - fold_in, rng)


def _last_of_rows(data: ObservedMatrix, order: NDArray[Any], held: Indices64) -> Parts:
    """The `held` entries of every row that are the last in the given order are held out."""
    ascending = np.lexsort((order, data.rows_of_entries()))  # stable: the larger column is later
    before_the_end = np.repeat(data.indptr[1:], data.row_counts()) - np.arange(len(data))
    chosen = np.zeros(len(data), dtype=np.bool_)
    chosen[ascending] = before_the_end <= np.repeat(held, data.row_counts())
    if not chosen.any():
        raise ValueError(
            "no row has enough entries to hold one out and keep another; rows with more entries are needed"
        )
    return _parts(data, chosen)


def _parts(data: ObservedMatrix, held: NDArray[np.bool_]) -> Parts:
    return data.subset(~held), data.subset(held)


def _of_rows(data: ObservedMatrix, chosen: NDArray[np.bool_]) -> ObservedMatrix:
    """Some of the rows, with their ids, or with their positions as ids."""
    part = data.subset(chosen[data.rows_of_entries()])
    ids = np.arange(data.shape[0]) if data.row_ids is None else data.row_ids
    ends = part.indptr[1:][chosen]
    return replace(
        part, indptr=np.concatenate([[0], ends]), shape=(int(chosen.sum()), data.shape[1]), row_ids=ids[chosen]
    )


def _times(data: ObservedMatrix, given: Any) -> NDArray[Any]:
    """The time of every entry, in the order of the entries."""
    if isinstance(given, ObservedMatrix):
        if given.shape != data.shape or not (
            np.array_equal(given.indptr, data.indptr) and np.array_equal(given.index, data.index)
        ):
            raise ValueError(
                f"times has other entries than data: {given!r} and {data!r}; give one time for every entry of data"
            )
        return given.values
    if data.reordered:
        raise ValueError(f"times is {in_which_order('times')}; dates as numbers, such as seconds since the first")
    times = np.asarray(given)
    if times.shape != (len(data),):
        raise ValueError(
            f"times has shape {times.shape}, but data has {len(data)} entries; give one time for every entry, in the "
            "order of data.values, or an ObservedMatrix of times"
        )
    if times.dtype.kind not in "iufmM" or (times != times).any():  # NaN and NaT differ from themselves
        raise ValueError(
            f"times must be numbers or dates of NumPy, none of them missing; got dtype {times.dtype}, with "
            f"{np.count_nonzero(times != times)} missing"
        )
    return times


def _time(given: Any, times: NDArray[Any]) -> Any:
    """A number, or a date that may be given as text; an error if it cannot be compared with the times."""
    try:
        start = np.datetime64(given) if times.dtype.kind == "M" else given
        times[:1] >= start  # noqa: B015  # raises an error
    except (TypeError, ValueError):
        needed = "a date, such as '2024-05-01'," if times.dtype.kind == "M" else "a number"
        raise ValueError(f"start is {given!r}, but {needed} is needed, as the times are") from None
    return start


def check_fraction(value: float, name: str) -> None:
    """An error unless the value is between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name} is {value!r}, but a number between 0 and 1, such as 0.2, is needed.")
