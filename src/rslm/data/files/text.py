"""Text tables read by Polars."""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rslm.data.files.cells import MISSING
from rslm.data.files.columns import typed
from rslm.data.files.dialect import Dialect
from rslm.data.files.faults import Records, empty_line_within, first_fault
from rslm.data.files.locate import beginning
from rslm.data.files.plain import Plain, separator_of
from rslm.data.files.tools import opened_if_compressed, polars

FIRST = 1 << 19  # bytes from which roles and types are guessed
RUNS = (b"  ", b"\n ", b" \n", b" \r", b"\t")  # blanks other than a single one between two cells
BLANKS = re.compile(rb'((?<![^ \t\n])"[^"]*")|[ \t]+')


@dataclass(frozen=True)
class TextTable:
    """A text table whose dialect is known, but whose columns have not been read."""

    name: str  #: for messages
    source: Path | bytes  #: a file that Polars can read as it is, or the text in UTF-8 with single-byte delimiters
    dialect: Dialect

    @classmethod
    def of(
        cls,
        name: str,
        source: Path | bytes,
        delimiter: str | None,
        header: bool | None,
        encoding: str | None = None,
        one_column: bool = False,
    ) -> TextTable:
        plain = Plain.of(name, opened_if_compressed(source, name), delimiter, header, encoding, one_column)
        return cls.shaped(name, plain)

    @classmethod
    def shaped(cls, name: str, plain: Plain) -> TextTable:
        """The table with line ends and separators that Polars knows."""
        content, dialect = plain.source, plain.dialect
        if plain.shaped:
            return cls(name, content, dialect)
        runs = dialect.delimiter == " " and _has_runs(content)
        if not dialect.bare_returns and len(dialect.delimiter) == 1 and not runs:
            return cls(name, content, dialect)
        text = content if isinstance(content, bytes) else content.read_bytes()
        if dialect.bare_returns:
            text = text.replace(b"\r", b"\n")
        if len(dialect.delimiter) > 1:
            text = text.replace(b"\t", b" ").replace(dialect.delimiter.encode(), b"\t")
        if runs:
            text = BLANKS.sub(_one_blank, text.removeprefix(b"\xef\xbb\xbf"))
        return cls(name, text, dialect)

    @property
    def separator(self) -> str:
        return separator_of(self.dialect.delimiter)

    def beginning(self) -> Any:
        """The first lines as a frame, columns of numbers converted."""
        return typed(self.first_lines(), self.dialect.decimal_comma)

    def first_lines(self) -> Any:
        """The first lines as a frame of text."""
        text = beginning(self.source, FIRST)
        return self._read(_whole_lines(text) if len(text) == FIRST else text, infer_schema_length=0)

    def columns(self, names: list[str], types: dict[str, Any]) -> Any | None:
        """These columns of all lines with these types, missing numbers as null; None if some cell does not fit."""
        try:
            return self._polars(self.source, columns=names, schema_overrides=types, null_values=list(MISSING))
        except _failures():
            return None

    def texts(self, names: list[str]) -> Any:
        """These columns of all lines as text."""
        return self._read(self.source, columns=names, infer_schema_length=0)

    def _read(self, source: Path | bytes, **options: Any) -> Any:
        try:
            return self._polars(source, **options)
        except _failures() as error:
            raise ValueError(self.fault() or f"{self.name} cannot be read: {_short(error)}") from None

    def _polars(self, source: Path | bytes, **options: Any) -> Any:
        pl = polars()
        frame = pl.read_csv(
            source,
            separator=self.separator,
            has_header=self.dialect.header,
            decimal_comma=self.dialect.decimal_comma,
            glob=False,  # a file name may contain [1]
            **options,
        )
        if frame.width and all(column.null_count() for column in frame):
            frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))  # empty lines
        return frame

    def fault(self, numbers: tuple[int, ...] = (), ids: tuple[int, ...] = (), gaps: bool = False) -> str | None:
        """A message about the first wrong line: see `first_fault`."""
        return first_fault(self._records(), self.dialect.header, self.dialect.decimal_comma, numbers, ids, gaps)

    def refuse_nul(self, frame: Any) -> None:
        """Refuse NUL bytes after the first lines, which would become part of an id."""
        pl = polars()
        found = frame.select(pl.col(pl.String).str.contains("\0", literal=True).any())
        if any(column.any() for column in found.get_columns()):
            raise ValueError(self.fault() or f"{self.name}: there is a NUL byte, which is not valid in text; remove it")

    def refuse_empty_lines(self) -> None:
        """In a table of one column, an empty line is ambiguous: a missing value, or no line at all."""
        line = empty_line_within(self._records())
        if line is not None:
            raise ValueError(f"{self.name}, line {line} is empty; write NA if a value is missing, or remove the line")

    def _records(self) -> Records:
        return Records(self.source, self.separator, self.name)


def _has_runs(content: Path | bytes) -> bool:
    if isinstance(content, bytes):
        return content.startswith(b" ") or any(run in content for run in RUNS)
    with content.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return text[:1] == b" " or any(text.find(run) >= 0 for run in RUNS)


def _one_blank(found: re.Match[bytes]) -> bytes:
    """Runs of blanks become one blank. Quoted cells are unchanged; blanks at the ends of a line are removed."""
    if found[1]:
        return found[1]
    text, begin, end = found.string, found.start(), found.end()
    outer = begin == 0 or text[begin - 1 : begin] == b"\n" or end == len(text) or text[end : end + 1] in b"\r\n"
    return b"" if outer else b" "


def _whole_lines(text: bytes) -> bytes:
    """The text up to the last line end outside of quotes, or up to the last line end if there is none."""
    last = end = text.rfind(b"\n")
    quotes = text.count(b'"', 0, end + 1)
    while end > 0 and quotes % 2:
        before = text.rfind(b"\n", 0, end)
        quotes -= text.count(b'"', before + 1, end + 1)
        end = before
    return text[: (end if end > 0 else last) + 1] or text


def _failures() -> tuple[type[Exception], ...]:
    return polars().exceptions.PolarsError, OSError, UnicodeDecodeError


def _short(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:200]
