"""Known names of the columns of tables with one entry a line: rows, columns, values and times."""

from __future__ import annotations

import re

ROWS = {"user", "userid", "uid", "row", "rows", "customer", "customerid", "reviewer", "reviewerid", "sample"}
ROWS |= {"visitor", "visitorid", "session", "sessionid", "listener", "listenerid"}
COLS = {"item", "itemid", "iid", "movie", "movieid", "product", "productid", "film", "col", "column", "feature"}
COLS |= {"track", "trackid", "artist", "artistid", "book", "bookid", "isbn", "anime", "animeid", "song", "songid"}
COLS |= {"video", "videoid", "article", "articleid"}
VALUES = {"rating", "ratings", "value", "values", "score", "stars", "count", "plays", "weight", "overall"}
TIMES = {"time", "timestamp", "ts", "date", "datetime", "day", "when", "unixtime", "eventtime", "epoch"}
# Such as played_at and order date; but a playtime or a watch_time is a count of seconds.
A_TIME = re.compile(r".*(edat|date|datetime|timestamp)")
AN_INDEX = re.compile(r"__index_level_\d+__")  # of a pandas frame, in a Parquet file
# A single letter is ambiguous: i is the column in u, i, r but the row in i, j, v. So letters count only in these pairs,
# and only if the third letter is absent; one for the value counts only if row and column are known.
LETTERS = (("u", "i", "j"), ("i", "j", "u"))
VALUE_LETTERS = {"r", "v", "x", "y", "w"}
MOST_IN_TRIPLETS = 4  # columns of a table with one entry a line whose columns have no known names: a time may be last


def plain_name(column: str) -> str:
    """A name without what writers of tables vary: case, blanks, hyphens and underscores."""
    return column.strip().lower().replace("_", "").replace(" ", "").replace("-", "")


def by_name(columns: list[str]) -> tuple[str | None, ...]:
    """Row, column and value, each None if no column has a known name."""
    row, col, value = (next((c for c in columns if plain_name(c) in known), None) for known in (ROWS, COLS, VALUES))
    letters = {plain_name(c): c for c in columns if len(plain_name(c)) == 1}
    if row is None and col is None and len(columns) <= MOST_IN_TRIPLETS:
        pairs = [(letters[r], letters[c]) for r, c, third in LETTERS if {r, c} <= set(letters) and third not in letters]
        row, col = pairs[0] if pairs else (None, None)
    if row is not None and col is not None and value is None:
        values = [c for letter, c in letters.items() if letter in VALUE_LETTERS]
        value = values[0] if len(values) == 1 else None
    return row, col, value


def is_time(column: str) -> bool:
    """Whether this is a usual name of a column of times."""
    return plain_name(column) in TIMES or A_TIME.fullmatch(plain_name(column)) is not None


def is_no_value(column: str) -> bool:
    """Whether a column cannot be that of the values, by its name: a time, or the index of a pandas frame."""
    return is_time(column) or AN_INDEX.fullmatch(column) is not None


def names_columns(cells: list[str]) -> bool:
    """Whether a line of words is a header: it has usual names of rows and columns, or of times."""
    row, col, _ = by_name(cells)
    return (row is not None and col is not None) or any(map(is_time, cells))


def names_ids(row: str, col: str) -> bool:
    """Whether these are usual names of columns of ids."""
    both = {plain_name(row), plain_name(col)}
    return both <= ROWS | COLS or any(both == {r, c} for r, c, _ in LETTERS)


def pair_by_name(names: list[str], row: str | None = None, col: str | None = None) -> tuple[str, str]:
    """Row and column of a table of at least two columns; what is neither given nor a known name is by order."""
    known_row, known_col, value = by_name(names)
    row, col = row or (known_row if known_row != col else None), col or (known_col if known_col != row else None)
    left = [c for c in names if c not in (row, col, value)] + ([] if value in (row, col, None) else [value])
    row = row or left.pop(0)
    return row, col or left.pop(0)


def roles_by_name(names: list[str], table: str) -> tuple[str, str, str]:
    """Row, column and value of a table with one entry a line; unknown names are assigned in this order."""
    found = list(by_name(names))
    left = [c for c in names if c not in found and not is_no_value(c)]
    if len(left) < found.count(None):
        times = [c for c in names if is_time(c)]
        advice = f". {times[0]} is a time: prepare a log of events first, which counts them" if times else ""
        raise ValueError(
            f"{table} has the columns {names}, but one entry a line needs a row, a column and a value{advice}"
        )
    row, col, value = (c if c is not None else left.pop(0) for c in found)
    return row, col, value
