"""Tables whose columns are asked for by name: series, and rows of features with a target."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm._typing import Floats
from rslm.data.files.locate import PARQUET, beginning, located
from rslm.data.files.roles import column_of, holds_numbers
from rslm.data.files.text import TextTable
from rslm.data.files.tools import polars


@dataclass(frozen=True)
class NamedColumns:
    """A table that has been read; `how` says what was guessed."""

    name: str  #: of the file, for messages
    frame: Any
    how: str

    def column(self, given: str) -> str:
        return column_of(self.frame, given.strip(), self.name)

    def numbers(self, given: str | None) -> tuple[str, Floats]:
        """A column of numbers with NaN where cells are empty; the last one if none is named."""
        if given is None:
            numeric = [c for c in self.frame.columns if self.frame[c].dtype.is_numeric()]
            if not numeric:
                raise ValueError(f"{self.name} has no column of numbers; the columns are {self.frame.columns}")
            given = numeric[-1]
        column = self.column(given)
        return column, self._floats(column)

    def ids(self, given: str) -> NDArray[Any]:
        """A column of labels."""
        column = self.column(given)
        if self.frame[column].null_count():
            raise ValueError(f"{self.name}: {self.frame[column].null_count()} cells of column {column!r} are empty")
        return np.asarray(self.frame[column].to_numpy())

    def matrix(self, without: list[str]) -> tuple[list[str], Floats]:
        """All other columns, which must be numbers without gaps."""
        names = [c for c in self.frame.columns if c not in without]
        if not names:
            raise ValueError(f"{self.name}: no column is left for the features")
        X = np.column_stack([self._floats(c) for c in names])
        gaps = np.flatnonzero(np.isnan(X).any(axis=0))
        if len(gaps):
            raise ValueError(f"{self.name}: feature {names[gaps[0]]!r} has empty cells; fill them or leave it out")
        return names, X

    def _floats(self, column: str) -> Floats:
        series = self.frame[column]
        if not holds_numbers(series):
            example = next((v for v in series if v is not None), None)
            raise ValueError(f"{self.name}: column {column!r} holds {example!r}, but numbers are needed; leave it out")
        pl = polars()
        return np.array(series.cast(pl.Float64).fill_null(np.nan).to_numpy())


def read_table(path: str | PathLike[str], *, delimiter: str | None = None, header: bool | None = None) -> NamedColumns:
    """A text table or Parquet file as it is."""
    name, source = located(path)
    pl = polars()
    if (source[:8] if isinstance(source, bytes) else beginning(source)).startswith(PARQUET):
        return NamedColumns(name, pl.read_parquet(source), "Parquet")
    table = TextTable.of(name, source, delimiter, header)
    return NamedColumns(name, table.columns(table.beginning().columns, {}), str(table.dialect))
