"""The roles of the columns of a table: row, column and value of every entry, or a dense matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rslm.data.files.columns import Column, described_by_type

ROWS = {"user", "userid", "uid", "row", "rows", "customer", "customerid", "reviewer", "reviewerid", "sample"}
COLS = {"item", "itemid", "iid", "movie", "movieid", "product", "productid", "film", "col", "column", "feature"}
COLS |= {"track", "artist", "artistid", "book", "bookid", "isbn", "anime", "animeid", "song", "songid"}
VALUES = {"rating", "ratings", "value", "values", "score", "stars", "count", "plays", "weight", "overall"}
# A single letter is ambiguous: i is the column in u, i, r but the row in i, j, v. So letters count only in these pairs,
# and only if the third letter is absent; one for the value counts only if row and column are known.
LETTERS = (("u", "i", "j"), ("i", "j", "u"))
VALUE_LETTERS = {"r", "v", "x", "y", "w"}
MOST_IN_TRIPLETS = 4  # columns of a table with one entry a line whose columns have no known names: a time may be last


@dataclass(frozen=True)
class Roles:
    """Names of columns: row, column and value if there is one entry a line, or those of a dense matrix."""

    triplets: tuple[str, str, str] | None
    row_ids: str | None = None  #: of a dense matrix
    features: tuple[str, ...] = ()
    weights: str | None = None  #: of the entries; never guessed

    def used(self) -> list[str]:
        if self.triplets is not None:
            return [*self.triplets[:2], *self.numbers()]
        return [*([self.row_ids] if self.row_ids is not None else []), *self.features]

    def numbers(self) -> list[str]:
        """The columns of numbers of a table with one entry a line: values, and weights if there are any."""
        assert self.triplets is not None
        return [self.triplets[2], *([] if self.weights is None else [self.weights])]

    def entry(self) -> str:
        """What one line of such a table is, in words."""
        assert self.triplets is not None
        row, col, value = self.triplets
        return in_words(row, col, value, self.weights)


def in_words(row: str, col: str, value: str, weight: str | None) -> str:
    return f"one entry a line: {row} × {col} → {value}" + ("" if weight is None else f", weight {weight}")


def guess_roles(
    frame: Any,
    name: str,
    named: bool,
    layout: str | None,
    rows: str | int | None,
    cols: str | int | None,
    values: str | int | None,
    weights: str | int | None = None,
    columns: list[Column] | None = None,
) -> Roles:
    """The roles of the columns of a Polars frame, or of its first rows; what is given is not guessed.

    `columns` gives their kinds; if None, they follow from the types of the frame.
    """
    if columns is None:
        columns = described_by_type(frame)
    names = [c.name for c in columns]
    given = tuple(None if g is None else column_of(names, g, name) for g in (rows, cols, values))
    weight = None if weights is None else column_of(names, weights, name)
    if layout not in (None, "triplets", "dense"):
        raise ValueError(f"layout must be 'triplets' or 'dense'; got {layout!r}")
    if layout == "dense":
        if any(g is not None for g in given):
            raise ValueError("layout 'dense' does not use rows, cols and values; leave them out")
        if weight is not None:
            raise ValueError("layout 'dense' has no column of weights; leave it out, or give one entry a line")
        return _dense(columns, name)
    if weight is not None:
        return _weighted(frame, columns, name, named, given, weight)
    by_name = _by_name(names) if named else (None, None, None)
    sure = sum(g is not None for g in given) + sum(b is not None for b in by_name)
    found = tuple(g if g is not None else b for g, b in zip(given, by_name, strict=True))
    if layout == "triplets" or any(g is not None for g in given) or sure >= 2 or _looks_like_entries(columns, frame):
        return Roles(_completed(columns, found, name))
    return _dense(columns, name)


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


def _plain(column: str) -> str:
    return column.strip().lower().replace("_", "").replace(" ", "").replace("-", "")


def _by_name(columns: list[str]) -> tuple[str | None, ...]:
    """Row, column and value, each None if no column has a known name."""
    row, col, value = (next((c for c in columns if _plain(c) in known), None) for known in (ROWS, COLS, VALUES))
    letters = {_plain(c): c for c in columns if len(_plain(c)) == 1}
    if row is None and col is None and len(columns) <= MOST_IN_TRIPLETS:
        pairs = [(letters[r], letters[c]) for r, c, third in LETTERS if {r, c} <= set(letters) and third not in letters]
        row, col = pairs[0] if pairs else (None, None)
    if row is not None and col is not None and value is None:
        values = [c for letter, c in letters.items() if letter in VALUE_LETTERS]
        value = values[0] if len(values) == 1 else None
    return row, col, value


def names_ids(row: str, col: str) -> bool:
    """Whether these are usual names of columns of ids."""
    both = {_plain(row), _plain(col)}
    return both <= ROWS | COLS or any(both == {r, c} for r, c, _ in LETTERS)


def roles_by_name(names: list[str], table: str) -> tuple[str, str, str]:
    """Row, column and value of a table with one entry a line; unknown names are assigned in this order."""
    found = list(_by_name(names))
    left = [c for c in names if c not in found]
    if len(left) < found.count(None):
        raise ValueError(f"{table} has the columns {names}, but one entry a line needs a row, a column and a value")
    row, col, value = (c if c is not None else left.pop(0) for c in found)
    return row, col, value


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
            raise ValueError(f"{name}: no column of numbers is left for the values; the columns are {names}")
        value = numbers[0]
        left.remove(value)
    picked = []
    for role in (row, col):
        if role is None:
            if not left:
                raise ValueError(
                    f"{name} has {len(names)} columns, but one entry a line needs a row, a column and a value"
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
