"""Columns of a text table: the kind of each, and the conversion of text to ids and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rslm.data.files.cells import ALMOST, COMMA_NUMBER, MISSING, NUMBER
from rslm.data.files.tools import polars
from rslm.runtime.types import Floats

Kind = Literal["empty", "integer", "code", "decimal", "marred", "words"]
INTEGER = "^[+-]?[0-9]+$"
WHOLE = "^(0|-?[1-9][0-9]*)$"  # as Python writes integers, so that the conversion loses nothing
EXACT = r"^-?(0|[1-9][0-9]*)(\.(0|[0-9]*[1-9]))?$"  # the same for decimals: 1.10 is a different id than 1.1
PADDED = "^[+-]?0[0-9]+$"
LONG = "^[+-]?[0-9]{19,}$"  # may not fit 64 bits


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind  #: code: whole numbers with leading zeros or beyond 64 bits; marred: numbers, and 5%, 1,234.5 or true
    mostly: bool = False  #: words, but more than half of the cells are numbers

    @property
    def numeric(self) -> bool:
        """Whether the cells are numbers, or were meant as numbers."""
        return self.kind in ("integer", "code", "decimal", "marred") or self.mostly


def described(frame: Any, comma: bool) -> list[Column]:
    """The columns of a frame of text, from all of its cells."""
    pl = polars()
    stripped = frame.select(pl.all().str.strip_chars())
    known = stripped.select(pl.all().replace(list(MISSING), [None] * len(MISSING)))
    number = COMMA_NUMBER if comma else NUMBER

    def part(pattern: str) -> list[int]:
        """How many cells of each column match."""
        return list(known.select(pl.all().str.contains(pattern).sum()).row(0))

    present = known.select(pl.all().count()).row(0)
    numbers, almost, integers, padded, long = map(part, (number, ALMOST, INTEGER, PADDED, LONG))
    found = []
    for k, name in enumerate(frame.columns):
        kind: Kind
        if not present[k]:
            kind = "empty"
        elif integers[k] == present[k]:
            beyond = long[k] and known.to_series(k).cast(pl.Int64, strict=False).null_count() > len(known) - present[k]
            kind = "code" if padded[k] or beyond else "integer"
        elif numbers[k] == present[k]:
            kind = "decimal"
        elif numbers[k] + (0 if comma else almost[k]) >= present[k] or almost[k] == present[k]:
            kind = "marred"
        else:
            kind = "words"
        found.append(Column(name, kind, kind == "words" and numbers[k] > 0.5 * present[k]))
    return found


def typed(frame: Any, comma: bool) -> Any:
    """A frame of text with its columns of numbers converted; codes stay text."""
    pl = polars()
    kinds = {c.name: c.kind for c in described(frame, comma)}
    known = pl.all().str.strip_chars().replace(list(MISSING), [None] * len(MISSING))
    numbers = frame.select(known.str.replace(",", ".", literal=True) if comma else known)
    dtypes = {"integer": pl.Int64, "decimal": pl.Float64}
    return frame.with_columns(numbers[c].cast(dtypes[kind]) for c, kind in kinds.items() if kind in dtypes)


def described_by_type(frame: Any) -> list[Column]:
    """The columns of a frame whose types are known."""

    def kind(series: Any) -> Kind:
        if series.null_count() == len(series):
            return "empty"
        return "integer" if series.dtype.is_integer() else "decimal" if series.dtype.is_numeric() else "words"

    return [Column(series.name, kind(series)) for series in frame]


def as_ids(series: Any) -> Any:
    """Text converted to numbers if that loses nothing, otherwise unchanged."""
    pl = polars()
    if series.dtype != pl.String or series.null_count() == len(series):
        return series
    for pattern, dtype in ((WHOLE, pl.Int64), (EXACT, pl.Float64)):
        if series.str.contains(pattern).all():
            numbers = series.cast(dtype, strict=False)
            if dtype == pl.Int64 and numbers.null_count() > series.null_count():
                return series  # beyond 64 bits
            return numbers
    return series


def as_numbers(series: Any, comma: bool) -> tuple[Floats, str | None]:
    """Text as numbers, NaN where missing, and the first cell that is not a number, if any."""
    pl = polars()
    if series.dtype == pl.String:
        text = series.str.strip_chars().replace(list(MISSING), [None] * len(MISSING))
        if comma:
            text = text.str.replace(",", ".", literal=True)
        numbers = text.cast(pl.Float64, strict=False)
        wrong = (
            None
            if numbers.null_count() == text.null_count()
            else series.filter(numbers.is_null() & text.is_not_null())[0]
        )
    else:
        numbers, wrong = series.cast(pl.Float64), None
    return np.array(numbers.fill_null(np.nan).to_numpy()), wrong
