"""Which columns of a table are what: row, column and value of every entry, or a matrix as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ROWS = {"user", "userid", "uid", "row", "rows", "i", "customer", "customerid", "reviewer", "reviewerid", "sample"}
COLS = {"item", "itemid", "iid", "movie", "movieid", "product", "productid", "film", "col", "column", "j", "feature"}
COLS |= {"track", "artist", "artistid", "book", "bookid", "isbn", "anime", "animeid", "song", "songid"}
VALUES = {"rating", "ratings", "value", "values", "score", "stars", "y", "count", "plays", "weight", "overall"}
MOST_IN_TRIPLETS = 4  # columns of a table without names that may still be one entry a line: a time may come last


@dataclass(frozen=True)
class Roles:
    """Names of columns: of the row, the column and the value of an entry a line, or of a dense matrix."""

    triplets: tuple[str, str, str] | None
    row_ids: str | None = None  #: of a dense matrix
    features: tuple[str, ...] = ()

    def used(self) -> list[str]:
        if self.triplets is not None:
            return list(self.triplets)
        return [*([self.row_ids] if self.row_ids is not None else []), *self.features]


def guess_roles(
    frame: Any,
    name: str,
    named: bool,
    layout: str | None,
    rows: str | int | None,
    cols: str | int | None,
    values: str | int | None,
) -> Roles:
    """The roles of the columns of a Polars frame, or of its beginning; what is given is not guessed."""
    given = tuple(None if g is None else column_of(frame, g, name) for g in (rows, cols, values))
    if layout not in (None, "triplets", "dense"):
        raise ValueError(f"layout must be 'triplets' or 'dense'; got {layout!r}")
    if layout == "dense":
        if any(g is not None for g in given):
            raise ValueError("layout='dense' has no roles of columns; leave rows, cols and values out")
        return _dense(frame, name)
    by_name = _by_name(frame.columns) if named else (None, None, None)
    sure = sum(g is not None for g in given) + sum(b is not None for b in by_name)
    found = tuple(g if g is not None else b for g, b in zip(given, by_name, strict=True))
    if layout == "triplets" or any(g is not None for g in given) or sure >= 2 or _looks_like_entries(frame):
        return Roles(_completed(frame, found, name))
    return _dense(frame, name)


def column_of(frame: Any, given: str | int, name: str) -> str:
    if isinstance(given, str) and given in frame.columns:
        return given
    try:
        position = int(given)
    except ValueError:
        position = 0
    if not 1 <= position <= frame.width:
        raise ValueError(
            f"{name} has no column {given!r}; there are {', '.join(frame.columns[:10])}, or their numbers from 1"
        )
    return str(frame.columns[position - 1])


def _plain(column: str) -> str:
    return column.strip().lower().replace("_", "").replace(" ", "").replace("-", "")


def _by_name(columns: list[str]) -> tuple[str | None, ...]:
    return tuple(next((c for c in columns if _plain(c) in known), None) for known in (ROWS, COLS, VALUES))


def _looks_like_entries(frame: Any) -> bool:
    """Three or four columns, of which the first two are ids that recur, and the third a number."""
    if not 3 <= frame.width <= MOST_IN_TRIPLETS or frame.height < 3:
        return False
    first, second, third = (frame.to_series(k) for k in range(3))
    ids = not first.dtype.is_float() and not second.dtype.is_float() and third.dtype.is_numeric()
    return ids and min(first.n_unique(), second.n_unique()) < frame.height


def _completed(frame: Any, found: tuple[str | None, ...], name: str) -> tuple[str, str, str]:
    """Roles that are still open go to the first columns that are left, the value to the first number."""
    row, col, value = found
    left = [c for c in frame.columns if c not in found]
    if value is None:
        ids_wanted = (row is None) + (col is None)
        numbers = [c for c in left[ids_wanted:] if frame[c].dtype.is_numeric()]
        if not numbers:
            raise ValueError(f"{name}: no column of numbers is left for the values; the columns are {frame.columns}")
        value = numbers[0]
        left.remove(value)
    picked = []
    for role in (row, col):
        if role is None:
            if not left:
                raise ValueError(
                    f"{name} has {frame.width} columns, but one entry a line needs a row, a column and a value"
                )
            role = left.pop(0)
        picked.append(role)
    if len({*picked, value}) < 3:
        raise ValueError(f"{name}: row, column and value must be three different columns; got {[*picked, value]}")
    return picked[0], picked[1], value


def holds_numbers(series: Any) -> bool:
    """Numbers, or nothing at all."""
    return bool(series.dtype.is_numeric()) or series.null_count() == len(series)


def _dense(frame: Any, name: str) -> Roles:
    """All numbers; a first column of words names the rows."""
    words = [c for c in frame.columns if not holds_numbers(frame[c])]
    row_ids = frame.columns[0] if words and words[0] == frame.columns[0] else None
    strange = [c for c in words if c != row_ids]
    if strange:
        example = next((v for v in frame[strange[0]] if v is not None), None)
        raise ValueError(
            f"{name}: column {strange[0]!r} holds {example!r}, but a matrix needs numbers; for one entry a line say "
            "which columns are rows, cols and values"
        )
    features = tuple(c for c in frame.columns if c != row_ids)
    if not features:
        raise ValueError(f"{name} has no column of numbers")
    return Roles(None, row_ids, features)
