"""Read the chosen columns of a text table: by a fast way, and by a slower, more careful one where that fails."""

from __future__ import annotations

from typing import Any

from rslm.data.files.cells import was_meant_as_number
from rslm.data.files.columns import Kind, as_ids, as_numbers
from rslm.data.files.roles import Roles
from rslm.data.files.text import TextTable
from rslm.data.files.tools import polars
from rslm.data.files.zeros import may_have_leading_zeros

OR_ENTRIES = "if there is one entry a line, name the columns that are rows, cols and values"


def entries_from_text(table: TextTable, roles: Roles, first: Any, kinds: dict[str, Kind]) -> Any:
    """Ids as whole numbers or text, values and weights as numbers.

    `first` and `kinds` are the first lines and their kinds.
    """
    frame = _fast(table, roles, first, kinds)
    if frame is None:
        frame = _careful(table, roles, first.columns)
    table.refuse_nul(frame)
    return frame


def _fast(table: TextTable, roles: Roles, first: Any, kinds: dict[str, Kind]) -> Any | None:
    """None if ids turn out to be of another kind than in the first lines, or anything is missing."""
    pl = polars()
    ids = roles.used()[:2]
    if any(kinds[c] not in ("integer", "words") for c in ids):
        return None
    numbers = [c for c in ids if kinds[c] == "integer"]
    if numbers and may_have_leading_zeros(table.source, table.separator):
        return None
    small = {c: (first[c].cast(pl.Int64, strict=False).abs().max() or 0) < 2**30 for c in numbers}
    types = {c: (pl.Int32 if small[c] else pl.Int64) if c in numbers else pl.String for c in ids}
    frame = table.columns(roles.used(), types | dict.fromkeys(roles.numbers(), pl.Float64))
    if frame is None or any(frame[c].null_count() for c in roles.used()):  # an id may be written NA
        return None
    return frame


def _careful(table: TextTable, roles: Roles, names: list[str]) -> Any:
    pl = polars()
    row, col, *numbers = roles.used()
    text = table.texts(roles.used())
    read = {c: as_numbers(text[c], table.dialect.decimal_comma) for c in numbers}
    series = [pl.Series(c, found) for c, (found, _) in read.items()]
    missing = any(s.is_nan().any() for s in series) or text[row].null_count() or text[col].null_count()
    if missing or any(wrong is not None for _, wrong in read.values()):
        fault = table.fault(tuple(names.index(c) for c in numbers), (names.index(row), names.index(col)))
        raise ValueError(fault or f"{table.name}: cells are empty; leave entries without a value or an id out")
    return pl.DataFrame([as_ids(text[row]), as_ids(text[col]), *series])


def dense_from_text(table: TextTable, roles: Roles, names: list[str]) -> Any:
    """A matrix: all columns are numbers, except the ids of rows."""
    pl = polars()
    ids = [] if roles.row_ids is None else [roles.row_ids]
    frame = table.columns(roles.used(), dict.fromkeys(roles.features, pl.Float64) | dict.fromkeys(ids, pl.String))
    if frame is None or any(frame[c].null_count() for c in ids):  # an id may be written NA
        frame = _careful_matrix(table, roles, names)
    table.refuse_nul(frame)
    return frame


def _careful_matrix(table: TextTable, roles: Roles, names: list[str]) -> Any:
    pl = polars()
    text = table.texts(roles.used())
    read = {c: as_numbers(text[c], table.dialect.decimal_comma) for c in roles.features}
    wrong = [cell for _, cell in read.values() if cell is not None]
    if wrong:
        fault = table.fault(tuple(names.index(c) for c in roles.features), gaps=True)
        words = "" if all(map(was_meant_as_number, wrong)) else f"; a matrix needs numbers; {OR_ENTRIES}"
        raise ValueError(f"{fault or table.name}{words}")
    columns = [pl.Series(c, numbers) for c, (numbers, _) in read.items()]
    return pl.DataFrame([*([] if roles.row_ids is None else [text[roles.row_ids].fill_null("")]), *columns])
