"""A table of entries in a file, as DuckDB reads it."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rslm.data.files.dialect import MISSING
from rslm.data.files.given import refuse_given
from rslm.data.files.locate import PARQUET, beginning, located
from rslm.data.files.parquet import read_parquet
from rslm.data.files.plain import Plain
from rslm.data.files.roles import Roles, guess_roles
from rslm.data.files.text import FIRST, TextTable
from rslm.data.files.tools import GZIP
from rslm.data.weights import NEEDED

SOME_ROWS = 10_000


def duckdb() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise ModuleNotFoundError("to prepare data, install one more package: pip install 'rslm[scale]'") from None
    return duckdb


@dataclass(frozen=True)
class Table:
    """A file whose format is known, but whose entries have not been read."""

    name: str
    path: Path
    source: str  #: the table function of DuckDB, with {r} and {c} for the types of ids
    parameters: dict[str, Any]
    columns: tuple[str, str, str | None]  #: row, column and value, which is 1 if None
    types: tuple[str, str]  #: of the ids
    how: str
    weights: str | None = None  #: the column of the weights

    @classmethod
    def of(
        cls,
        path: str | os.PathLike[str],
        delimiter: str | None,
        header: bool | None,
        encoding: str | None,
        rows: str | int | None,
        cols: str | int | None,
        values: str | int | None,
        weights: str | int | None,
        events: bool,
        folder: Path,
    ) -> Table:
        """`folder`: where the text is rewritten if DuckDB cannot read it as it is."""
        name, file = located(path)
        if isinstance(file, bytes):
            raise ValueError("standard input cannot be prepared; write it to a file first")
        if set(str(file)) & set("*?["):  # DuckDB would take the path for a pattern and read other files
            raise ValueError(f"{name} has *, ? or [ in its path, which DuckDB reads as a pattern; rename or move it")
        roles: dict[str, Any] = {"layout": None, "rows": rows, "cols": cols, "values": values, "weights": weights}
        roles["events"] = events
        if beginning(file).startswith(PARQUET):
            refuse_given(name, "Parquet", {"delimiter": delimiter, "header": header, "encoding": encoding})
            first = read_parquet(file, name, SOME_ROWS)
            chosen = guess_roles(first, name, True, **roles)
            how, source, parameters = "Parquet", "read_parquet($path)", dict[str, Any]()
            unnamed = None
        else:
            plain = Plain.of(name, file, delimiter, header, encoding, folder=folder)
            assert isinstance(plain.source, Path)
            file = plain.source
            text = TextTable.shaped(name, replace(plain, source=_beginning(file)))
            first = text.beginning()
            chosen = guess_roles(first, name, text.dialect.header, **roles)
            how, unnamed = str(text.dialect), None if text.dialect.header else first.columns
            source, parameters = _csv(text, plain, first.columns, chosen) if chosen.triplets else ("", {})
        if chosen.triplets is None:
            raise ValueError(
                f"{name} looks like a matrix, but one entry per line is needed: name the columns with its rows, "
                "columns and values"
            )
        kinds = tuple("BIGINT" if first[c].dtype.is_integer() else "VARCHAR" for c in chosen.triplets[:2])
        how = f"{how}, {chosen.entry(unnamed)}"
        return cls(name, file, source, parameters, chosen.triplets, (kinds[0], kinds[1]), how, chosen.weights)

    def load(self, database: Any, keep_order: bool) -> None:
        """Create the table t of all entries: r, c, v and, if there are weights, w."""
        database.execute(f"SET preserve_insertion_order = {str(keep_order).lower()}")
        # Ids that are numbers in the first lines may be text later: those of the rows, the columns or both.
        ways = [self.types, ("VARCHAR", self.types[1]), (self.types[0], "VARCHAR"), ("VARCHAR", "VARCHAR")]
        for k, types in enumerate(ways):
            try:
                self._load(database, types)
                break
            except duckdb().ConversionException:
                if k == len(ways) - 1:
                    raise
        count, empty = database.execute(
            "SELECT count(*), count(*) FILTER (r IS NULL OR c IS NULL OR v IS NULL OR NOT isfinite(v)) FROM t"
        ).fetchone()
        if count == 0:
            raise ValueError(f"{self.name} has a header, but nothing below it")
        if empty:
            raise ValueError(
                f"{self.name}: {empty:,} of {count:,} entries have no id, or a value that is missing or infinite; "
                "leave them out"
            )
        if self.weights is not None:
            self._check_weights(database, count)

    def _check_weights(self, database: Any, count: int) -> None:
        bad = "w IS NULL OR NOT isfinite(w) OR w < 0"
        found = database.execute(f"SELECT r, c, w FROM t WHERE {bad} ORDER BY rowid LIMIT 1").fetchone()
        if found is not None:
            wrong = database.execute(f"SELECT count(*) FROM t WHERE {bad}").fetchone()[0]
            row, col, weight = found
            raise ValueError(
                f"{self.name}: {wrong:,} of {count:,} weights are missing, negative or infinite: the first is "
                f"{'missing' if weight is None else f'{weight:g}'} at row {row!r}, column {col!r}. {NEEDED}"
            )
        if not database.execute("SELECT max(w) FROM t").fetchone()[0]:
            raise ValueError(f"{self.name}: all {count:,} weights are zero, so nothing is observed")

    def _load(self, database: Any, types: tuple[str, str]) -> None:
        row, col = map(_quoted, self.columns[:2])
        value = "1" if self.columns[2] is None else _quoted(self.columns[2])
        weight = "" if self.weights is None else f", {_quoted(self.weights)}::DOUBLE AS w"
        source = self.source.format(r=types[0], c=types[1])
        database.execute(
            f"CREATE OR REPLACE TABLE t AS SELECT {row}::{types[0]} AS r, {col}::{types[1]} AS c, {value}::DOUBLE AS v"
            f"{weight} FROM {source}",
            {"path": str(self.path), **self.parameters},
        )


def _quoted(column: str) -> str:
    """The name of a column in SQL."""
    return '"' + column.replace('"', '""') + '"'


def _csv(text: TextTable, plain: Plain, names: list[str], roles: Roles) -> tuple[str, dict[str, Any]]:
    """A call of read_csv with all options given, so that DuckDB guesses nothing."""
    row, col, *numbers = roles.used()
    known = {row: "{r}", col: "{c}"} | dict.fromkeys(numbers, "DOUBLE")
    quoted = (name.replace("'", "''").replace("{", "{{").replace("}", "}}") for name in names)
    listed = ", ".join(f"'{q}': '{known.get(name, 'VARCHAR')}'" for q, name in zip(quoted, names, strict=True))
    options = "delim = $delimiter, header = $header, nullstr = $missing, auto_detect = false"
    if text.dialect.delimiter == " ":
        raise ValueError(
            f"{text.name} is separated by blanks, perhaps several in a row, which DuckDB does not read; write it with "
            "commas"
        )
    comma = ", decimal_separator = ','" if text.dialect.decimal_comma else ""
    source = f"read_csv($path, columns = {{{{{listed}}}}}, {options}, quote = '\"', escape = '\"'{comma})"
    delimiter = text.separator if plain.shaped else text.dialect.delimiter  # DuckDB knows '::' too
    parameters = {"delimiter": delimiter, "header": text.dialect.header, "missing": list(MISSING)}
    return source, parameters


def _beginning(file: Path) -> bytes:
    """The first part of the text, unpacked if the file is compressed."""
    if beginning(file).startswith(GZIP):
        with gzip.open(file) as stream:
            return stream.read(FIRST)
    with file.open("rb") as plain:
        return plain.read(FIRST)


def line_of(error: Exception) -> str:
    """The message of DuckDB about a file, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "; ".join(lines[:3]).removeprefix("Invalid Input Error: ").removeprefix("Conversion Error: ")[:300]
