"""Read one matrix from one file of any supported format."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rslm.data.convert import Duplicates
from rslm.data.files.binary import NPY, read_market, read_mat, read_npy, read_npz
from rslm.data.files.columns import described, described_by_type
from rslm.data.files.dialect import NAMES
from rslm.data.files.fill import OR_ENTRIES, dense_from_text, entries_from_text
from rslm.data.files.foreign import refuse_archive
from rslm.data.files.given import refuse_given
from rslm.data.files.locate import PARQUET, STANDARD_INPUT, ZIP, beginning, located
from rslm.data.files.names import pair_by_name
from rslm.data.files.parquet import read_parquet
from rslm.data.files.roles import Roles, guess_roles
from rslm.data.files.table import read_table
from rslm.data.files.text import TextTable
from rslm.data.files.tools import polars
from rslm.data.observed import ObservedMatrix
from rslm.data.prepared.manifest import is_prepared
from rslm.data.prepared.opened import open_prepared


class Pairs(NamedTuple):
    """Ids of rows and columns that were read; `how` describes the format of the file, including guesses."""

    rows: NDArray[Any]
    cols: NDArray[Any]
    how: str
    names: tuple[str, str]  #: of the two columns


@dataclass(frozen=True)
class Source:
    """A matrix that was read, and a description of how its file was interpreted."""

    data: ObservedMatrix  #: the matrix
    how: str  #: for instance "text separated by comma, with a header, one entry a line: user × item → rating"
    events: bool = False  #: whether lines were counted


def read_source(
    path: str | PathLike[str],
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    layout: str | None = None,
    rows: str | int | None = None,
    cols: str | int | None = None,
    values: str | int | None = None,
    weights: str | int | None = None,
    variable: str | None = None,
    duplicates: Duplicates = "error",
    events: bool = False,
) -> Source:
    """Read a matrix; "-" is standard input.

    Parameters
    ----------
    path : text (.csv, .tsv, .dat, any delimiter, .gz), Parquet, MatrixMarket (.mtx), NumPy (.npy, .npz), MATLAB (.mat)
        Or a folder that `rslm prepare` has written, whose arrays stay on disk.
    delimiter, header : of text; guessed if None
    encoding : of text, a name that Python knows, such as "cp1252"
        If None: UTF-8, UTF-16 if there is a byte order mark, or else Windows-1252 or Latin-1, which is reported.
    layout : {"triplets", "dense"}, optional
        One entry a line, or a matrix with empty cells; guessed if None.
    rows, cols, values : name of a column, or its number from 1, optional
        The columns with the rows, columns and values if there is one entry a line; guessed if None.
    weights : name of a column, or its number from 1, optional
        The column with the weights of the entries, as in `ObservedMatrix.from_triplets`; never guessed. In an npz file
        with rows, columns and values, the name of the array of weights.
    variable : name of a matrix in a MATLAB or npz file with several, optional
    duplicates : {"error", "sum", "mean", "last"}
        How a pair that occurs more than once is treated, as in `ObservedMatrix.from_triplets`. Events are counted:
        "error" is the same as "sum" for them.
    events : bool, default=False
        Whether every line is one event, as in a log of clicks: a row and a column, and no value. What else is in a
        line, such as its time, is not read. It is guessed if columns have known names and none can be that of the
        values: user, item, timestamp.
    """
    text = {"delimiter": delimiter, "header": header, "encoding": encoding}
    roles = {
        "layout": layout,
        "rows": rows,
        "cols": cols,
        "values": values,
        "weights": weights,
        "events": events or None,
    }
    chosen = {"variable": variable}
    if fspath(path) != STANDARD_INPUT and is_prepared(path):
        refuse_given(str(path), "prepared data", text | roles | chosen)
        return Source(open_prepared(path, check=True), "prepared data")
    name, source = located(path)
    begins = beginning(source)
    suffixes = [] if isinstance(source, bytes) else [s.lower() for s in source.suffixes if s.lower() != ".gz"]
    ending = suffixes[-1] if suffixes else ""
    try:
        if begins.startswith(PARQUET) or ending == ".parquet":
            refuse_given(name, "Parquet", text | chosen)
            return _from_parquet(name, source, roles, duplicates)
        if begins.startswith(NPY) or ending == ".npy":
            refuse_given(name, "a NumPy array", text | roles | chosen)
            return Source(*read_npy(name, source))
        if begins.startswith(ZIP):
            refuse_archive(source, name)
        if begins.startswith(ZIP) or ending == ".npz":
            refuse_given(name, "an npz file", text | roles | {"weights": None})
            return Source(*read_npz(name, source, variable, None if weights is None else str(weights)))
        if ending == ".mat":
            refuse_given(name, "a MATLAB file", text | roles)
            return Source(*read_mat(name, source, variable))
        if ending == ".mtx" or begins.lower().startswith(b"%%matrix"):
            refuse_given(name, "MatrixMarket", text | roles | chosen)
            return Source(*read_market(name, source))
        refuse_given(name, "a text table", chosen)
        return _from_text(TextTable.of(name, source, delimiter, header, encoding), roles, duplicates)
    except MemoryError:
        raise ValueError(f"{name} claims a size for which there is not enough memory") from None


def read_pairs(
    path: str | PathLike[str],
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    rows: str | None = None,
    cols: str | None = None,
) -> Pairs:
    """Ids of rows and columns of a text table or Parquet file: those given, or known by name, or the first."""
    table = read_table(path, delimiter=delimiter, header=header, encoding=encoding)
    names, wanted = table.frame.columns, [None if given is None else table.column(given) for given in (rows, cols)]
    row, col = pair_by_name([table.column("1"), table.column("2"), *names[2:]], *wanted)
    named = table.text is None or table.text.dialect.header
    shown = [name if named else f"column {names.index(name) + 1}" for name in (row, col)]
    return Pairs(table.ids(row), table.ids(col), table.how, (shown[0], shown[1]))


def _from_text(table: TextTable, roles: dict[str, Any], duplicates: Duplicates) -> Source:
    first = table.first_lines()
    if first.width < 2:
        by = NAMES.get(table.dialect.delimiter, repr(table.dialect.delimiter))
        raise ValueError(f"{table.name} has only one column if it is separated by {by}; give another delimiter")
    if first.height == 0:
        raise ValueError(f"{table.name} has a header, but nothing below it")
    columns = described(first, table.dialect.decimal_comma)
    chosen = guess_roles(first, table.name, table.dialect.header, **roles, columns=columns)
    if chosen.triplets is None:
        return _dense_source(table.name, dense_from_text(table, chosen, first.columns), chosen, str(table.dialect))
    frame = entries_from_text(table, chosen, first, {c.name: c.kind for c in columns})
    entry = chosen.entry(None if table.dialect.header else first.columns)
    return _entries_source(table.name, frame, chosen, f"{table.dialect}, {entry}", duplicates)


def _from_parquet(name: str, source: Path | bytes, roles: dict[str, Any], duplicates: Duplicates) -> Source:
    frame = read_parquet(source, name)
    if frame.height == 0 or frame.width == 0:
        raise ValueError(f"{name} is a table without rows or columns")
    columns = described_by_type(frame)
    chosen = guess_roles(frame, name, True, **roles)
    frame = frame.select(chosen.used())
    if chosen.triplets is None:
        words = next((c.name for c in columns if c.kind == "words" and c.name in chosen.features), None)
        if words is not None:
            example = next((v for v in frame[words] if v is not None), None)
            raise ValueError(f"{name}: column {words!r} holds {example!r}, but a matrix needs numbers; {OR_ENTRIES}")
        return _dense_source(name, frame, chosen, "Parquet")
    for column in chosen.used():
        if frame[column].null_count():
            empty = f"{frame[column].null_count()} of {frame.height} cells of column {column!r} are empty"
            raise ValueError(f"{name}: {empty}; leave such entries out")
    for role, column in zip(("values", "weights"), chosen.numbers(), strict=False):
        if not frame[column].dtype.is_numeric():
            raise ValueError(f"{name}: column {column!r} holds no numbers; name the column that does: {role}")
    return _entries_source(name, frame, chosen, f"Parquet, {chosen.entry()}", duplicates)


def _dense_source(name: str, frame: Any, roles: Roles, how: str) -> Source:
    pl = polars()
    array = frame.select(list(roles.features)).cast(pl.Float64).fill_null(np.nan).to_numpy()
    ids = None if roles.row_ids is None else frame[roles.row_ids].to_numpy()
    try:
        matrix = ObservedMatrix.from_any(array)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    columns = np.array(roles.features, dtype=object) if "without a header" not in how else None
    data = ObservedMatrix(matrix.indptr, matrix.index, matrix.values, matrix.shape, ids, columns)
    return Source(data, f"{how}, a matrix{', first column names the rows' if ids is not None else ''}")


def _entries_source(name: str, frame: Any, roles: Roles, how: str, duplicates: Duplicates) -> Source:
    try:
        rows, cols, *numbers = (frame[c].to_numpy() for c in roles.used())
        if roles.events:
            counted: Duplicates = "sum" if duplicates == "error" else duplicates
            return Source(ObservedMatrix.from_ratings(rows, cols, np.ones(len(rows)), counted), how, events=True)
        values, *weights = numbers
        return Source(ObservedMatrix.from_ratings(rows, cols, values, duplicates, *weights), how)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from None
