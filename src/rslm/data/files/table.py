"""Tables whose columns are selected by name: series, and rows of features with a target."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data.files.cells import was_meant_as_number
from rslm.data.files.columns import as_ids, as_numbers, described, described_by_type
from rslm.data.files.foreign import refuse_archive
from rslm.data.files.given import refuse_given
from rslm.data.files.locate import PARQUET, ZIP, beginning, located
from rslm.data.files.parquet import read_parquet
from rslm.data.files.roles import column_of
from rslm.data.files.text import TextTable
from rslm.runtime.types import Floats


@dataclass(frozen=True)
class NamedColumns:
    """A table that has been read; `how` describes its format, including guesses."""

    name: str  #: of the file, for messages
    frame: Any  #: all columns are text if the file is text
    how: str
    text: TextTable | None = None

    def column(self, given: str) -> str:
        return column_of(self.frame.columns, given.strip(), self.name)

    def numbers(self, given: str | None) -> tuple[str, Floats]:
        """A column of numbers, NaN where cells are empty; the last such column if none is named."""
        column = self._last_of_numbers() if given is None else self.column(given)
        y = self._floats(column)
        if np.isnan(y).all():
            raise ValueError(f"{self.name}: column {column!r} is empty; fill it or name another")
        return column, y

    def ids(self, given: str) -> NDArray[Any]:
        """A column of labels."""
        column = self.column(given)
        series = as_ids(self.frame[column])
        if series.null_count():
            fault = self.text.fault(ids=(self.frame.columns.index(column),)) if self.text else None
            raise ValueError(fault or f"{self.name}: {series.null_count()} cells of column {column!r} are empty")
        return np.asarray(series.to_numpy())

    def matrix(self, without: list[str]) -> tuple[list[str], Floats]:
        """All other columns, which must be numbers without empty cells."""
        names = [c for c in self.frame.columns if c not in without]
        if not names:
            raise ValueError(f"{self.name}: no column is left for the features")
        X = np.column_stack([self._floats(c) for c in names])
        gaps = np.flatnonzero(np.isnan(X).any(axis=0))
        if len(gaps):
            raise ValueError(f"{self.name}: feature {names[gaps[0]]!r} has empty cells; fill them or leave it out")
        return names, X

    def _last_of_numbers(self) -> str:
        """The last column that is, or may have been meant as, one of numbers: also if it is empty or contains 5%."""
        comma = self.text is not None and self.text.dialect.decimal_comma
        columns = described_by_type(self.frame) if self.text is None else described(self.frame, comma)
        numeric = [c.name for c in columns if c.numeric or c.kind == "empty"]
        if not numeric and len(columns) > 1:
            raise ValueError(f"{self.name} has no column of numbers; the columns are {self.frame.columns}")
        return numeric[-1] if numeric else columns[0].name

    def _floats(self, column: str) -> Floats:
        series = self.frame[column]
        if self.text is None and not (series.dtype.is_numeric() or series.null_count() == len(series)):
            example = next((v for v in series if v is not None), None)
            raise ValueError(f"{self.name}: column {column!r} holds {example!r}, but numbers are needed; leave it out")
        numbers, wrong = as_numbers(series, self.text is not None and self.text.dialect.decimal_comma)
        if wrong is not None and self.text is not None:
            fault = self.text.fault(numbers=(self.frame.columns.index(column),), gaps=True)
            words = (
                ""
                if was_meant_as_number(wrong)
                else f"; column {column!r} holds {wrong[:40]!r}: fix it or leave it out"
            )
            raise ValueError(f"{fault or self.name}{words}")
        return numbers


def read_table(
    path: str | PathLike[str],
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
) -> NamedColumns:
    """All columns of a text table or Parquet file; a single column is enough."""
    name, source = located(path)
    begins = beginning(source)
    if begins.startswith(PARQUET):
        refuse_given(name, "Parquet", {"delimiter": delimiter, "header": header, "encoding": encoding})
        return NamedColumns(name, read_parquet(source, name), "Parquet")
    if begins.startswith(ZIP):
        refuse_archive(source, name)
    table = TextTable.of(name, source, delimiter, header, encoding, one_column=True)
    frame = table.texts(table.first_lines().columns)
    table.refuse_nul(frame)
    if not table.dialect.header:
        frame.columns = [f"column_{k}" for k in range(1, frame.width + 1)]  # Polars 2 counts from 0
    if frame.width == 1:
        table.refuse_empty_lines()
    return NamedColumns(name, frame, str(table.dialect), table)
