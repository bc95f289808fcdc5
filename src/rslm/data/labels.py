"""Ids of rows and columns, and the position that belongs to an id."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from datetime import date
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data.checks import LARGEST, integers
from rslm.runtime.types import Indices32, Indices64

Ids = NDArray[Any]


@dataclass(eq=False)
class Labels:
    """The ids of the rows or of the columns, and the position that belongs to each."""

    kind: str  #: "row" or "column", for messages
    count: int
    ids: Ids | None = None  #: None if positions serve as ids
    _table: dict[Hashable, int] | None = field(default=None, init=False, repr=False)

    def positions(self, wanted: Any) -> Indices64:
        """The positions of the ids `wanted`, an array even for a single id; without ids, the positions, checked."""
        at = self.places(wanted)
        if (at < 0).any():
            raise self.refusal(wanted, at)
        return at

    def places(self, wanted: Any) -> Indices64:
        """The positions of the ids `wanted`, with −1 for ids that are unknown and for positions beyond the last."""
        if self.ids is None:
            given = integers(np.atleast_1d(wanted), f"{self.kind} positions").astype(np.int64, copy=False)
            if given.min(initial=0) < 0:
                raise self.refusal(given, given)
            return np.where(given < self.count, given, -1)
        if self._table is None:
            self._table = {name: at for at, name in enumerate(hashable(self.ids))}
        if len(self._table) < self.count:
            raise ValueError(
                f"The {self.count} {self.kind} ids contain only {len(self._table)} different ones, so an id does not "
                "identify one position. Make them unique before you build the matrix."
            )
        names = hashable(as_ids(wanted, f"{self.kind} ids"))
        return np.fromiter(map(self._table.get, names, repeat(-1)), np.int64, len(names))

    def refusal(self, wanted: Any, at: Indices64, advice: str = "leave unknown ones out") -> ValueError:
        """The error for ids `wanted` of which some, where `at` is negative, are unknown; `advice` is what to do."""
        unknown = np.flatnonzero(at < 0)
        if self.ids is None:
            return ValueError(
                f"{self.kind} positions[{unknown[0]}] is {np.atleast_1d(wanted)[unknown[0]]}, but positions from 0 to "
                f"{self.count - 1} are known; {advice}."
            )
        first = hashable(as_ids(wanted, "ids"))[unknown[0]]
        alike = next((name for name in hashable(self.ids) if str(name) == str(first)), None)
        if alike is not None:
            advice = f"note that {alike!r} and {first!r} are different ids"
        return ValueError(
            f"Unknown {self.kind} id {first!r} at position {unknown[0]}; {len(unknown)} of {len(at)} given ids are "
            f"unknown. {self.count} {self.kind} ids are known, such as {show_id(self.ids, 0)}; {advice}."
        )

    def knows(self, ids: Ids) -> bool:
        """Whether all of these ids are known; False if the matrix has no ids."""
        return self.ids is not None and set(hashable(ids)) <= set(hashable(self.ids))

    def same(self, ids: Ids) -> bool:
        """Whether these are the ids, in the same order; True if the matrix has no ids."""
        return self.ids is None or hashable(self.ids) == hashable(ids)


def as_ids(given: Any, what: str) -> Ids:
    """A one-dimensional array of the ids, none of them converted; a single id counts as a list of one."""
    if hasattr(given, "to_numpy"):
        given = np.asarray(given.to_numpy())  # a Timestamp gives a scalar
    if not isinstance(given, np.ndarray):
        listed = [given] if isinstance(given, str | bytes) or not isinstance(given, Iterable) else list(given)
        # NumPy would turn [1, "a"] into strings, [2**63, -1] into floats and tuples into a second dimension.
        uniform = len({type(value) for value in listed}) == 1 and isinstance(listed[0], int | str)
        array = np.asarray(listed) if uniform else None
        if array is None or array.dtype.kind not in "iuU":
            array = np.fromiter(listed, object, len(listed))
        return array
    if given.ndim > 1:
        raise ValueError(f"{what} has shape {given.shape}, but one dimension is needed.")
    return given.reshape(-1)


def hashable(ids: Ids) -> list[Any]:
    """The ids as Python objects, equal where the ids are equal, whatever the type of the array."""
    # tolist would turn nanoseconds into integers; datetime compares equal to pandas' Timestamp.
    listed: list[Any] = (ids.astype("datetime64[us]") if ids.dtype.kind == "M" else ids).tolist()
    return listed


def number_ids(ids: Ids, what: str) -> tuple[Ids, Indices32]:
    """The different ids, and the position of each given id among them."""
    if ids.dtype.kind == "O":
        return _number_objects(ids, what)
    if ids.dtype.kind in "iu":
        low, span = int(ids.min()), int(ids.max()) - int(ids.min()) + 1
        if span <= min(max(2 * len(ids), 1 << 20), LARGEST):  # a table of the whole range is cheaper than sorting
            wide = ids if ids.dtype.itemsize >= 4 else ids.astype(np.int32)  # the differences may not fit 8 or 16 bits
            offset = wide - wide.dtype.type(low)
            present = np.zeros(span, dtype=np.bool_)
            present[offset] = True
            number = np.cumsum(present, dtype=np.int32) - np.int32(1)
            return np.flatnonzero(present).astype(wide.dtype) + wide.dtype.type(low), number[offset]
    missing = np.isnan(ids) if ids.dtype.kind == "f" else np.isnat(ids) if ids.dtype.kind in "mM" else None
    if missing is not None and missing.any():
        raise _missing_id(what, int(np.argmax(missing)), int(np.count_nonzero(missing)))
    different, position = np.unique(ids, return_inverse=True)
    return different, position.astype(np.int32)


def _number_objects(ids: Ids, what: str) -> tuple[Ids, Indices32]:
    listed = ids.tolist()
    try:
        different = list(dict.fromkeys(listed))
    except TypeError as error:
        raise TypeError(f"{what} must be hashable, such as strings, numbers or tuples of them: {error}.") from None
    if any(map(is_missing, different)):
        at = [k for k, value in enumerate(listed) if is_missing(value)]
        raise _missing_id(what, at[0], len(at))
    try:
        different.sort()
    except TypeError:  # mixed types; list.sort may already have moved some of them
        different = list(dict.fromkeys(listed))
    table = {name: at for at, name in enumerate(different)}
    position = np.fromiter(map(table.__getitem__, listed), np.int32, len(listed))
    return np.fromiter(different, object, len(different)), position


def is_missing(value: Any) -> bool:
    """None, NaN, NaT or pandas' NA."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)  # NaN and NaT


def _missing_id(what: str, at: int, count: int) -> ValueError:
    return ValueError(f"{what}[{at}] is missing (None or NaN), {count} in all. Drop these entries or give them an id.")


def show_id(ids: Ids | None, at: int) -> str:
    """An id as the user would write it; the position if there are no ids."""
    if ids is None:
        return str(at)
    value = hashable(ids[at : at + 1])[0]
    return value.isoformat().removesuffix("T00:00:00") if isinstance(value, date) else repr(value)
