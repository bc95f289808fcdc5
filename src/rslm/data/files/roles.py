"""The roles of the columns of a table: row, column and value of every entry, or a dense matrix.

A table with one entry a line but without values is a log of events: every line counts 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rslm.data.files.columns import Column, described_by_type
from rslm.data.files.names import MOST_IN_TRIPLETS, by_name, is_no_value

OR_EVENTS = "If every line is one event, say so: events"


@dataclass(frozen=True)
class Roles:
    """Names of columns: row, column and value if there is one entry a line, or those of a dense matrix."""

    triplets: tuple[str, str, str | None] | None  #: the value is None in a log of events
    row_ids: str | None = None  #: of a dense matrix
    features: tuple[str, ...] = ()
    weights: str | None = None  #: of the entries; never guessed
    unread: tuple[str, ...] = ()  #: the other columns of a log of events

    @property
    def events(self) -> bool:
        """Whether every line is one event."""
        return self.triplets is not None and self.triplets[2] is None

    def used(self) -> list[str]:
        if self.triplets is not None:
            return [*self.triplets[:2], *self.numbers()]
        return [*([self.row_ids] if self.row_ids is not None else []), *self.features]

    def numbers(self) -> list[str]:
        """The columns of numbers of a table with one entry a line: values and weights, as far as there are any."""
        assert self.triplets is not None
        return [name for name in (self.triplets[2], self.weights) if name is not None]

    def entry(self, numbered: list[str] | None = None) -> str:
        """What one line of such a table is, in words; columns without a name go by their numbers in a list of all."""
        assert self.triplets is not None

        def shown(name: str) -> str:
            return name if numbered is None else f"column {numbered.index(name) + 1}"

        row, col, value = (None if name is None else shown(name) for name in self.triplets)
        if value is not None:
            weight = "" if self.weights is None else f", weight {shown(self.weights)}"
            return f"one entry a line: {row} × {col} → {value}{weight}"
        others = f"; not read: {', '.join(map(shown, self.unread))}" if self.unread else ""
        return f"one event a line, counted by {row} × {col}{others}"


def guess_roles(
    frame: Any,
    name: str,
    named: bool,
    layout: str | None,
    rows: str | int | None,
    cols: str | int | None,
    values: str | int | None,
    weights: str | int | None = None,
    events: bool | None = None,
    columns: list[Column] | None = None,
) -> Roles:
    """The roles of the columns of a Polars frame, or of its first rows; what is given is not guessed.

    `columns` gives their kinds; if None, they follow from the types of the frame. If `events` is true, every line is
    one event; otherwise it is if the names of the columns say so, and none of them can be that of the values.
    """
    if columns is None:
        columns = described_by_type(frame)
    names = [c.name for c in columns]
    given = tuple(None if g is None else column_of(names, g, name) for g in (rows, cols, values))
    weight = None if weights is None else column_of(names, weights, name)
    if layout not in (None, "triplets", "dense"):
        raise ValueError(f"layout must be 'triplets' or 'dense'; got {layout!r}")
    if events:
        _check_events(layout, given[2], weight)
    if layout == "dense":
        if any(g is not None for g in given):
            raise ValueError("layout 'dense' does not use rows, cols and values; leave them out")
        if weight is not None:
            raise ValueError("layout 'dense' has no column of weights; leave it out, or give one entry a line")
        return _dense(columns, name)
    if weight is not None:
        return _weighted(frame, columns, name, named, given, weight)
    guessed = by_name(names) if named else (None, None, None)
    sure = sum(g is not None for g in given) + sum(b is not None for b in guessed)
    found = tuple(g if g is not None else b for g, b in zip(given, guessed, strict=True))
    pair = _first_two(columns, found[:2], named, name) if events else _pair_without_value(columns, found, named)
    if pair is not None:
        return Roles((*pair, None), unread=tuple(c for c in names if c not in pair))
    if layout == "triplets" or any(g is not None for g in given) or sure >= 2 or _looks_like_entries(columns, frame):
        return Roles(_completed(columns, found, name))
    return _dense(columns, name)


def _check_events(layout: str | None, value: str | None, weight: str | None) -> None:
    """Raise an error if something was given that contradicts a log of events."""
    if layout == "dense":
        raise ValueError("layout 'dense' is a matrix, and not one event a line; leave one of the two out")
    for what, column in (("values", value), ("weights", weight)):
        if column is not None:
            raise ValueError(
                f"events have no {what}: every line counts 1, but {what} {column!r} was given; leave one of the two out"
            )


def _first_two(columns: list[Column], found: tuple[str | None, ...], named: bool, name: str) -> tuple[str, str]:
    """Row and column of events: those that are known, or else the first columns that are no times."""
    left = [c.name for c in columns if c.name not in found and not (named and is_no_value(c.name))]
    if len(left) < found.count(None):
        raise ValueError(f"{name} has the columns {[c.name for c in columns]}, but an event needs a row and a column")
    row, col = (c if c is not None else left.pop(0) for c in found)
    return row, col


def _pair_without_value(columns: list[Column], found: tuple[str | None, ...], named: bool) -> tuple[str, str] | None:
    """Row and column of a table without a column of values, as far as its names tell; None if it may have one."""
    row, col, value = found
    if value is not None:
        return None
    left = [c for c in columns if c.name not in found]
    others = [c for c in left if not (named and is_no_value(c.name))]
    if row is not None and col is not None:
        return None if any(c.numeric for c in others) else (row, col)
    # With a time, two other columns are enough if one of them has a known name, or both hold words.
    sure = row is not None or col is not None or all(c.kind == "words" for c in others)
    if sure and len(others) < len(left) and len(others) == (row is None) + (col is None):
        return row or others.pop(0).name, col or others.pop(0).name
    return None


def _weighted(
    frame: Any, columns: list[Column], name: str, named: bool, given: tuple[str | None, ...], weight: str
) -> Roles:
    """Entries with a column of weights, which has no other role; a table with weights has one entry a line."""
    if weight in given:
        raise ValueError(f"{name}: column {weight!r} cannot have two roles; the weights need a column of their own")
    left = [c for c in columns if c.name != weight]
    row, col, value = given
    others = guess_roles(frame, name, named, "triplets", row, col, value, columns=left)
    return Roles(others.triplets, weights=weight)


def column_of(names: list[str], given: str | int, name: str) -> str:
    if isinstance(given, str) and given in names:
        return given
    try:
        position = int(given)
    except ValueError:
        position = 0
    if not 1 <= position <= len(names):
        raise ValueError(f"{name} has no column {given!r}; there are {', '.join(names[:10])}, or their numbers from 1")
    return names[position - 1]


def _looks_like_entries(columns: list[Column], frame: Any) -> bool:
    """Whether there are three or four columns, the first two of them ids that recur, the third one of numbers."""
    if not 3 <= len(columns) <= MOST_IN_TRIPLETS or frame.height < 3:
        return False
    first, second, third = columns[:3]
    ids = all(c.kind in ("integer", "code", "words", "empty") for c in (first, second))
    return ids and third.numeric and min(frame[c.name].n_unique() for c in (first, second)) < frame.height


def _completed(columns: list[Column], found: tuple[str | None, ...], name: str) -> tuple[str, str, str]:
    """Assign missing roles to the first remaining columns, that of the value to the first one of numbers."""
    row, col, value = found
    names = [c.name for c in columns]
    left = [c for c in names if c not in found]
    if value is None:
        ids_wanted = (row is None) + (col is None)
        numeric = {c.name for c in columns if c.numeric}
        numbers = [c for c in left[ids_wanted:] if c in numeric]
        if not numbers:
            raise ValueError(
                f"{name}: no column of numbers is left for the values; the columns are {names}. {OR_EVENTS}"
            )
        value = numbers[0]
        left.remove(value)
    picked = []
    for role in (row, col):
        if role is None:
            if not left:
                raise ValueError(
                    f"{name} has {len(names)} columns, but one entry a line needs a row, a column and a value. "
                    f"{OR_EVENTS}"
                )
            role = left.pop(0)
        picked.append(role)
    if len({*picked, value}) < 3:
        raise ValueError(f"{name}: row, column and value must be three different columns; got {[*picked, value]}")
    return picked[0], picked[1], value


def _dense(columns: list[Column], name: str) -> Roles:
    """A dense matrix. A first column of words names the rows, and so does one of codes if no other column is one."""
    first = columns[0]
    codes = [c for c in columns if c.kind == "code"]
    row_ids = first.name if first.kind == "words" or codes == [first] else None
    features = tuple(c.name for c in columns if c.name != row_ids)
    if not features:
        raise ValueError(f"{name} has no column of numbers")
    return Roles(None, row_ids, features)
