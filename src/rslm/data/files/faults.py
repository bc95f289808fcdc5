"""Find the first wrong line of a text table, in plain Python: slow, and only for files that could not be read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from rslm.data.files.cells import MISSING, is_number, no_number

OTHER_BYTES = range(0xDC80, 0xDD00)  # what "surrogateescape" decodes bytes to that are not UTF-8


class Records:
    """Lines and cells of a table; `open_at` is the line of a quote that is never closed."""

    def __init__(self, source: Path | bytes, separator: str, name: str) -> None:
        self.source, self.separator, self.name = source, separator, name
        self.open_at: int | None = None
        self._ended = False

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        stream = io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source.open("rb")
        with io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
            reader, begin = csv.reader(self._fed(text), delimiter=self.separator), 1
            try:
                for cells in reader:
                    if self._ended and cells:  # the reader asked for more lines, so it was inside quotes
                        self.open_at = begin + "".join(cells[:-1]).count("\n")
                        return
                    yield begin, cells
                    begin = reader.line_num + 1
            except csv.Error as error:
                if reader.line_num > begin:  # the cell has thousands of lines, so its quote is open
                    self.open_at = begin
                    return
                raise ValueError(f"{self.name}, line {begin}: {error}") from None

    def _fed(self, lines: Iterator[str]) -> Iterator[str]:
        yield from lines
        self._ended = True


def first_fault(
    records: Records,
    header: bool,
    comma: bool,
    numbers: tuple[int, ...] = (),
    ids: tuple[int, ...] = (),
    gaps: bool = False,
) -> str | None:
    """A message about the first wrong line, or None.

    A line is wrong if it has too many or too few cells, bytes that are not UTF-8, a NUL byte or an open quote, if a
    cell in the columns `numbers` is not a number (with `gaps` it may be missing), or if one in the columns `ids` is
    empty.
    """
    expected: int | None = None
    for line, cells in records:
        if not cells:
            continue
        where = f"{records.name}, line {line}"
        strange = _strange(cells)
        if strange is not None:
            return f"{where}: {strange}"
        if expected is None:
            expected = len(cells)
            if header:
                continue
        if len(cells) != expected:
            return f"{where}: {len(cells)} cells, where the first line has {expected}; correct that line"
        for k in numbers:
            if not is_number(cells[k], comma):
                return f"{where}: {no_number(cells[k], '' if gaps else 'correct the line or leave it out')}"
            if not gaps and cells[k].strip() in MISSING:
                return f"{where}: {cells[k]!r} is not a number; leave entries without a value out"
        for k in ids:
            if not cells[k]:
                return f"{where}: cell {k + 1} is empty, where an id is needed; leave the entry out"
    if records.open_at is not None:
        return f"{records.name}, line {records.open_at}: a quote opens here and is never closed; close it or remove it"
    return None


def empty_line_within(records: Records) -> int | None:
    """The first empty line that is followed by a line with cells."""
    empty = None
    for line, cells in records:
        if any(map(str.strip, cells)):
            if empty is not None:
                return empty
        elif empty is None:
            empty = line
    return None


def _strange(cells: list[str]) -> str | None:
    together = "".join(cells)
    if "\0" in together:
        return "there is a NUL byte, which is not valid in text; remove it"
    if not together.isascii():
        other = next((ord(c) for c in together if ord(c) in OTHER_BYTES), None)
        if other is not None:
            return f"the byte {other - 0xDC00:#x} is not UTF-8; write the file again as UTF-8"
    return None
