"""One matrix from one file, whatever its format."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data.convert import Duplicates
from rslm.data.files.binary import read_market, read_mat, read_npz
from rslm.data.files.locate import PARQUET, ZIP, beginning, located
from rslm.data.files.roles import Roles, guess_roles
from rslm.data.files.table import read_table
from rslm.data.files.text import TextTable
from rslm.data.files.tools import polars
from rslm.data.observed import ObservedMatrix


@dataclass(frozen=True)
class Source:
    """A matrix that was read, and how: what was guessed, in words."""

    data: ObservedMatrix  #: the matrix
    how: str  #: for instance "text separated by comma, with a header, one entry a line: user × item → rating"


def read_source(
    path: str | PathLike[str],
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    layout: str | None = None,
    rows: str | int | None = None,
    cols: str | int | None = None,
    values: str | int | None = None,
    variable: str | None = None,
    duplicates: Duplicates = "error",
) -> Source:
    """Read a matrix; "-" is standard input.

    Parameters
    ----------
    path : text (.csv, .tsv, .dat, any delimiter, .gz), Parquet, MatrixMarket (.mtx), NumPy (.npz) or MATLAB (.mat)
    delimiter, header : of text; guessed if None
    layout : {"triplets", "dense"}, optional
        One entry a line, or a matrix with empty cells; guessed if None.
    rows, cols, values : name of a column, or its number from 1, optional
        The roles of columns where there is one entry a line; guessed if None.
    variable : of a MATLAB file with several
    duplicates : {"error", "sum", "mean", "last"}
        What becomes of a pair that occurs more than once.
    """
    name, source = located(path)
    begins = source[:8] if isinstance(source, bytes) else beginning(source)
    suffixes = [] if isinstance(source, bytes) else [s.lower() for s in source.suffixes if s.lower() != ".gz"]
    ending = suffixes[-1] if suffixes else ""
    roles = {"layout": layout, "rows": rows, "cols": cols, "values": values}
    try:
        if begins.startswith(PARQUET) or ending == ".parquet":
            return _from_parquet(name, source, roles, duplicates)
        if begins.startswith(ZIP) or ending == ".npz":
            return Source(*read_npz(name, source))
        if ending == ".mat":
            return Source(*read_mat(name, source, variable))
        if ending == ".mtx" or begins.lower().startswith(b"%%matrix"):
            return Source(*read_market(name, source))
        return _from_text(TextTable.of(name, source, delimiter, header), roles, duplicates)
    except MemoryError:
        raise ValueError(f"{name} claims more than there is memory for") from None


def read_pairs(
    path: str | PathLike[str],
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    rows: str | None = None,
    cols: str | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ids of rows and columns: the first two columns of a text table or Parquet file, or those that are named."""
    table = read_table(path, delimiter=delimiter, header=header)
    return table.ids(rows or "1"), table.ids(cols or "2")


def _from_text(table: TextTable, roles: dict[str, Any], duplicates: Duplicates) -> Source:
    first = table.beginning()
    if first.height == 0:
        raise ValueError(f"{table.name} has a header, but nothing below it")
    chosen = guess_roles(first, table.name, table.dialect.header, **roles)
    pl = polars()
    types: dict[str, Any] = {}
    if chosen.triplets is not None:
        types = {chosen.triplets[2]: pl.Float64} | {
            c: pl.Int32 if first[c].dtype.is_integer() and _fits(first[c]) else first[c].dtype
            for c in chosen.triplets[:2]
        }
    if chosen.triplets is None:
        frame = table.columns(chosen.used(), types)
    else:
        try:
            frame = table.columns(chosen.used(), types)
        except ValueError as error:  # perhaps ids that are numbers at first, and something else later
            frame = _with_other_ids(table, chosen, types, error)
    positions = tuple(first.columns.index(c) for c in (chosen.triplets or ())[2:])
    source = _made(table.name, frame, chosen, str(table.dialect), duplicates, lambda: table.first_fault(positions))
    if table.dialect.header or chosen.triplets is None:
        return source
    numbers = [first.columns.index(c) + 1 for c in chosen.triplets]  # columns without a name go by their numbers
    shown = "column {} × column {} → column {}".format(*numbers)
    return replace(source, how=f"{table.dialect}, one entry a line: {shown}")


def _with_other_ids(table: TextTable, chosen: Roles, types: dict[str, Any], error: ValueError) -> Any:
    pl = polars()
    assert chosen.triplets is not None
    wider = types | dict.fromkeys(chosen.triplets[:2], pl.String)
    try:
        return table.columns(chosen.used(), wider)
    except ValueError:
        pass
    value = chosen.triplets[2]
    names = table.beginning().columns
    fault = table.first_fault((names.index(value),))
    raise ValueError(fault or str(error)) from None


def _fits(series: Any) -> bool:
    largest = series.max()
    return largest is None or abs(int(largest)) < 2**30


def _from_parquet(name: str, source: Path | bytes, roles: dict[str, Any], duplicates: Duplicates) -> Source:
    pl = polars()
    try:
        frame = pl.read_parquet(source)
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise ValueError(f"{name} is damaged or no Parquet file: {str(error).splitlines()[0][:200]}") from None
    if frame.height == 0 or frame.width == 0:
        raise ValueError(f"{name} is a table without rows or columns")
    chosen = guess_roles(frame, name, True, **roles)
    return _made(name, frame.select(chosen.used()), chosen, "Parquet", duplicates, lambda: None)


def _made(name: str, frame: Any, roles: Roles, how: str, duplicates: Duplicates, fault: Any) -> Source:
    if roles.triplets is not None:
        return _from_entries(name, frame, roles.triplets, how, duplicates, fault)
    pl = polars()
    numbers = frame.select(list(roles.features))
    strange = [
        c for c in numbers.columns if not (numbers[c].dtype.is_numeric() or numbers[c].null_count() == frame.height)
    ]
    if strange:
        raise ValueError(f"{name}: column {strange[0]!r} holds words, but a matrix needs numbers")
    array = numbers.cast(pl.Float64).fill_null(np.nan).to_numpy()
    ids = None if roles.row_ids is None else frame[roles.row_ids].to_numpy()
    matrix = ObservedMatrix.from_any(array)
    named = "without a header" not in how
    columns = np.array(roles.features, dtype=object) if named else None
    data = ObservedMatrix(matrix.indptr, matrix.index, matrix.values, matrix.shape, ids, columns)
    return Source(data, f"{how}, a matrix{', first column names the rows' if ids is not None else ''}")


def _from_entries(
    name: str, frame: Any, triplets: tuple[str, str, str], how: str, duplicates: Duplicates, fault: Any
) -> Source:
    row, col, value = triplets
    nulls = {c: frame[c].null_count() for c in triplets}
    if any(nulls.values()):
        lacking = next(c for c, n in nulls.items() if n)
        where = fault() or f"{name}: {nulls[lacking]} of {frame.height} cells of column {lacking!r} are empty"
        raise ValueError(f"{where}; leave entries without a value out")
    if not frame[value].dtype.is_numeric():
        raise ValueError(fault() or f"{name}: column {value!r} holds no numbers")
    try:
        rows, cols, numbers = (frame[c].to_numpy() for c in triplets)
        data = ObservedMatrix.from_ratings(rows, cols, numbers, duplicates)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from None
    return Source(data, f"{how}, one entry a line: {row} × {col} → {value}")
