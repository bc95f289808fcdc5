"""How a text table is written: delimiter, header, encoding and line ends, guessed from its beginning."""

from __future__ import annotations

import csv
from dataclasses import dataclass

SAMPLE = 1 << 16  # bytes to look at
LINES = 100
DELIMITERS = ("::", "\t", ",", ";", "|", " ")
NAMES = {"::": "'::'", "\t": "tab", ",": "comma", ";": "semicolon", "|": "'|'", " ": "space"}
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")


@dataclass(frozen=True)
class Dialect:
    delimiter: str
    header: bool
    encoding: str  #: "utf-8" or "latin-1"
    bare_returns: bool  #: lines end with a carriage return alone

    def __str__(self) -> str:
        by = NAMES.get(self.delimiter, repr(self.delimiter))
        latin = ", Latin-1" if self.encoding == "latin-1" else ""
        return f"text separated by {by}, {'with' if self.header else 'without'} a header{latin}"


def guess(sample: bytes, name: str, delimiter: str | None = None, header: bool | None = None) -> Dialect:
    """The dialect of a file that begins so; what is given is not guessed."""
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(f"{name} is encoded in UTF-16; write it again as UTF-8")
    if b"\0" in sample:
        line = sample[: sample.index(b"\0")].count(b"\n") + 1
        raise ValueError(f"{name}, line {line}: there is a NUL byte, so this is no text; what format is the file?")
    bare_returns = b"\r" in sample and b"\n" not in sample
    encoding = "utf-8"
    try:
        text = sample.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < len(sample) - 4:  # else a character that the sample has cut
            encoding = "latin-1"
        text = sample.decode("latin-1" if encoding == "latin-1" else "utf-8-sig", errors="ignore")
    lines = [line for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n") if line.strip()]
    if len(lines) > 1 and len(sample) >= SAMPLE:
        lines.pop()  # the sample may have cut it
    if not lines:
        raise ValueError(f"{name} is empty")
    chosen = delimiter if delimiter is not None else _delimiter(lines[:LINES], name)
    cells = [split(line, chosen) for line in lines[:LINES]]
    return Dialect(chosen, _has_header(cells) if header is None else header, encoding, bare_returns)


def split(line: str, delimiter: str) -> list[str]:
    """The cells of a line."""
    if len(delimiter) > 1:
        return line.split(delimiter)
    return next(csv.reader([line], delimiter=delimiter), [])


def _delimiter(lines: list[str], name: str) -> str:
    """The one that splits all lines alike, into as many cells as possible; the first line may be a title of its own."""
    best, most = None, (0.0, 1)
    for candidate in DELIMITERS:
        counts = [len(split(line, candidate)) for line in lines]
        usual = max(set(counts), key=counts.count)
        if usual > 1:
            alike = counts.count(usual) / len(counts)
            if (round(alike, 1), usual) > most:
                best, most = candidate, (round(alike, 1), usual)
    if best is None:
        shown = lines[0] if len(lines[0]) <= 40 else lines[0][:40] + "…"
        raise ValueError(
            f"{name}: no delimiter found in {shown!r}; a table of at least two columns is needed, separated by comma, "
            "tab, semicolon, '|', '::' or space. Say which with delimiter="
        )
    return best


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.strip() in MISSING
    return True


def _has_header(cells: list[list[str]]) -> bool:
    """Whether the first line has words where the others have numbers, or only words that are all different."""
    first, others = cells[0], cells[1:]
    if not others:
        return not any(is_number(c) for c in first)
    for k, cell in enumerate(first):
        below = [row[k] for row in others if k < len(row)]
        if not is_number(cell) and below and sum(is_number(c) for c in below) > 0.5 * len(below):
            return True
    return False
