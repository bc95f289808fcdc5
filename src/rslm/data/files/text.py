"""Text tables by Polars, and where exactly a file is wrong if it cannot read them."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rslm.data.files.dialect import MISSING, NAMES, SAMPLE, Dialect, guess, is_number
from rslm.data.files.tools import opened_if_compressed, polars

FIRST = 1 << 19  # bytes from which roles and types are guessed
LINES = 10_000


@dataclass(frozen=True)
class TextTable:
    """A text table that has been looked at, but not read."""

    name: str  #: for messages
    source: Path | bytes  #: a file that Polars can read as it is, or the text in UTF-8 with single-byte delimiters
    dialect: Dialect

    @classmethod
    def of(cls, name: str, source: Path | bytes, delimiter: str | None, header: bool | None) -> TextTable:
        content = opened_if_compressed(source, name)
        sample = content[:SAMPLE] if isinstance(content, bytes) else _beginning(content, SAMPLE)
        dialect = guess(sample, name, delimiter, header)
        if dialect.encoding == "utf-8" and not dialect.bare_returns and len(dialect.delimiter) == 1:
            return cls(name, content, dialect)
        text = content if isinstance(content, bytes) else content.read_bytes()
        if dialect.encoding != "utf-8":
            text = text.decode(dialect.encoding).encode("utf-8")
        if dialect.bare_returns:
            text = text.replace(b"\r", b"\n")
        if len(dialect.delimiter) > 1:
            text = text.replace(b"\t", b" ").replace(dialect.delimiter.encode(), b"\t")
        return cls(name, text, dialect)

    @property
    def _separator(self) -> str:
        return self.dialect.delimiter if len(self.dialect.delimiter) == 1 else "\t"

    def beginning(self) -> Any:
        """The first lines as a frame."""
        text = self.source if isinstance(self.source, bytes) else _beginning(self.source, FIRST)
        if len(text) > FIRST or (len(text) == FIRST and b"\n" in text):
            text = text[: text.rindex(b"\n", 0, FIRST) + 1]  # whole lines
        frame = self._read(text)
        if frame.width < 2:
            by = NAMES.get(self.dialect.delimiter, repr(self.dialect.delimiter))
            raise ValueError(f"{self.name} has one column only when it is separated by {by}; is the delimiter another?")
        return frame

    def columns(self, names: list[str], types: dict[str, Any]) -> Any:
        """These columns of all lines, with these types where they are known."""
        return self._read(self.source, columns=names, schema_overrides={k: v for k, v in types.items() if k in names})

    def _read(self, source: Path | bytes, **options: Any) -> Any:
        pl = polars()
        try:
            frame = pl.read_csv(
                source,
                separator=self._separator,
                has_header=self.dialect.header,
                infer_schema_length=None if isinstance(source, bytes) and len(source) <= FIRST else LINES,
                null_values=list(MISSING),
                **options,
            )
            return frame.remove(pl.all_horizontal(pl.all().is_null()))  # empty lines
        except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
            raise ValueError(self.first_fault() or f"{self.name} cannot be read: {_short(error)}") from None

    def first_fault(self, numbers: tuple[int, ...] = ()) -> str | None:
        """The first line that is wrong, in words: cells too many or too few, no number where `numbers` must be."""
        expected: int | None = None
        for line, cells in self._lines():
            if not cells:
                continue
            if expected is None:
                expected = len(cells)
                if self.dialect.header:
                    continue
            if len(cells) != expected:
                return f"{self.name}, line {line}: {len(cells)} cells, where the first line has {expected}"
            for k in numbers:
                if not is_number(cells[k]) or cells[k].strip() in MISSING:
                    shown = cells[k] if len(cells[k]) <= 40 else cells[k][:40] + "…"
                    return f"{self.name}, line {line}: {shown!r} is no number, where the value of an entry is expected"
        return None

    def _lines(self) -> Any:
        """Numbers and cells of all lines, in plain Python."""
        stream = io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source.open("rb")
        with io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="") as text:
            reader = csv.reader(text, delimiter=self._separator)
            try:
                for cells in reader:
                    yield reader.line_num, cells
            except csv.Error as error:
                raise ValueError(f"{self.name}, line {reader.line_num}: {error}") from None


def _beginning(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        return file.read(size)


def _short(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:200]
