"""Quoted cells: check whether all are in standard form, with quotes inside of them doubled, or else rewrite the text.

Polars silently loses all lines between two quotes that it takes for the ends of a cell. So the whole text is checked
first. If quotes are written in another form, the text is rewritten by Python's reader, or refused with the wrong line.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rslm.data.files.locate import beginning
from rslm.data.files.scratch import Scratch
from rslm.data.files.tools import blocks, stream

QUOTE, NEWLINE, RETURN = b'"\n\r'
CACHED = 1 << 17  # bytes that stay in the cache while they are read several times
ESCAPED = b'\\"'
BACKSLASH = re.compile(r'\\(["\\])|\\')
SEPARATORS = {" ": b" \t", "::": b":"}  # bytes that may be next to the quotes of a cell
NEVER_CLOSED = "a quote opens here and is never closed; close it or remove it"


@dataclass(frozen=True)
class Survey:
    """What a check of the whole text has found."""

    utf8: bool = True
    usual: bool = True  #: every quote opens a cell, closes it, or is doubled
    escaped: bool = False  #: there are quotes after a backslash
    spaced: bool = False  #: there are quotes after a separator and a blank
    breaks: int = 0  #: line ends in quotes, if `usual`
    first: int = 0  #: position of the first of them, in bytes


def survey(source: Path | bytes, name: str, delimiter: str) -> Survey:
    """Check all bytes of a text, block by block."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    adjacent = np.zeros(256, dtype=np.bool_)
    adjacent[list(SEPARATORS.get(delimiter, delimiter.encode()) + b'"\n\r')] = True
    spaced_quote = delimiter.encode() + b' "'
    utf8 = usual = True
    escaped, spaced, inside, breaks, first, at = False, False, 0, 0, 0, 0
    marked = beginning(source, len(codecs.BOM_UTF8)) == codecs.BOM_UTF8
    tail = b"\n"  # at first a line end before the text, then its last two bytes: one checked, one not yet
    end = b""  # of the previous block, which may end with a separator and a blank
    for block in _ended(blocks(source, name, CACHED)):
        if utf8 and not (block.isascii() and not decoder.getstate()[0]):
            try:
                decoder.decode(block)
            except UnicodeDecodeError:
                utf8 = False
        if marked:
            block, at, marked = block[len(codecs.BOM_UTF8) :], len(codecs.BOM_UTF8), False
        if not inside and b'"' not in block and b'"' not in tail:  # as in most files
            tail, at, end = (tail + block[-2:])[-2:], at + len(block), block[-len(spaced_quote) :]
            continue
        text = tail + block
        escaped = escaped or ESCAPED in text
        spaced = spaced or (delimiter != " " and (spaced_quote in block or spaced_quote in end + block[:9]))
        end = block[-len(spaced_quote) :]
        if usual and (inside or b'"' in text):
            signs = np.frombuffer(text, dtype=np.uint8)
            within = signs[1:-1]
            quotes = np.flatnonzero(within == QUOTE) + 1
            closes = (np.arange(len(quotes)) + inside) % 2 == 1
            usual = bool(adjacent[signs[np.where(closes, quotes + 1, quotes - 1)]].all())
            ends = np.flatnonzero((within == NEWLINE) | (within == RETURN)) + 1
            ends = ends[(np.searchsorted(quotes, ends) + inside) % 2 == 1]
            ends = ends[(signs[ends] == NEWLINE) | (signs[ends + 1] != NEWLINE)]  # CR LF is one
            if len(ends) and not breaks:
                first = at - len(tail) + int(ends[0])
            breaks += len(ends)
            inside = (inside + len(quotes)) % 2
        at += len(block)
        tail = text[-2:]
    try:
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        utf8 = False
    return Survey(utf8, usual and not inside, escaped, spaced, breaks, first)


def line_at(source: Path | bytes, name: str, offset: int) -> int:
    """The number of the line, from 1, that contains a byte."""
    lines, bare, left = 1, 0, offset
    for block in blocks(source, name):
        part = block[:left]
        lines, bare, left = lines + part.count(b"\n"), bare + part.count(b"\r"), left - len(part)
        if not left:
            break
    return lines if lines > 1 else 1 + bare


@dataclass(frozen=True)
class Rewritten:
    """A text rewritten with standard quotes, or why that is not possible."""

    source: Path | bytes = b""
    escapes: bool = False  #: whether a backslash before a quote was taken for an escape
    spaced: bool = False  #: whether blanks before a cell were left out, as in 1, "a", 2
    breaks: int = 0  #: line ends in cells
    line: int = 0  #: of the first of them, or of the fault
    wrong: str = ""


def rewritten(
    source: Path | bytes, name: str, delimiter: str, separator: str, found: Survey, folder: Path | None
) -> Rewritten:
    """Rewrite the text, in UTF-8, with standard quotes."""
    tried: list[Rewritten] = []
    for spaced in [True, False] if found.spaced else [False]:  # prefer quoted cells to literal quotes
        way = _best(source, delimiter, separator, found.escaped, spaced, folder)
        if not way.wrong:
            return way
        tried.append(way)
    furthest = max(tried, key=lambda way: way.line)
    raise ValueError(f"{name}, line {furthest.line}: {furthest.wrong}")


def _best(
    source: Path | bytes, delimiter: str, separator: str, escaped: bool, spaced: bool, folder: Path | None
) -> Rewritten:
    """The better of two readings, with and without escapes; `escaped`: there are quotes after a backslash."""
    plain = _read(source, delimiter, separator, False, spaced, folder)
    if not escaped or not (plain.wrong or plain.breaks):
        return plain
    other = _read(source, delimiter, separator, True, spaced, folder)
    if plain.wrong and other.wrong:
        return max(plain, other, key=lambda way: way.line)
    better = plain.wrong or (not other.wrong and other.breaks < plain.breaks)
    return other if better else plain


def _read(
    source: Path | bytes, delimiter: str, separator: str, escapes: bool, spaced: bool, folder: Path | None
) -> Rewritten:
    scratch, expected, begin, breaks, first = Scratch(source, folder), 0, 1, 0, 0
    with io.TextIOWrapper(stream(source), encoding="utf-8-sig", newline="") as text:
        fed = _Fed(text, delimiter, escapes)
        reader = csv.reader(
            fed,
            delimiter=separator,
            escapechar="\\" if escapes else None,
            skipinitialspace=spaced or delimiter == " ",
            strict=True,
        )
        out = io.StringIO(newline="")
        writer = csv.writer(out, delimiter=separator)  # it ends lines with CR LF, so it quotes cells with either
        try:
            for cells in reader:
                writer.writerow(cells)
                if cells and len(cells) != (expected := expected or len(cells)):
                    break
                if reader.line_num > begin and cells:
                    breaks, first = breaks + reader.line_num - begin, first or begin
                begin = reader.line_num + 1
                fed.record.clear()
                if out.tell() > 1 << 20:
                    scratch.write(_taken(out))
            else:
                scratch.write(_taken(out))
                return Rewritten(scratch.done(), escapes, spaced, breaks, first)
            wrong = f"{len(cells)} cells, where the first line has {expected}; correct that line"
        except csv.Error as error:
            begin, wrong = _explained(error, fed.record, begin, separator, escapes)
    return Rewritten(line=begin, wrong=wrong)


def _explained(error: csv.Error, record: list[str], begin: int, separator: str, escapes: bool) -> tuple[int, str]:
    """The wrong line and a message; `record`: the lines from `begin` to the one where the error was raised."""
    opened, after = _last_in_quotes(record, separator, escapes)
    if "expected after" in str(error):
        line, last = begin + opened, begin + len(record) - 1
        if line < last:  # it may belong to the next cell in quotes
            return line, f"a quote opens here, and the next one is within line {last}; close it, or remove it"
        if after.strip(" ")[:1] in (separator, "", "\r", "\n"):
            return line, "blanks follow a quoted cell; remove them"
        return line, "a quote is inside a quoted cell; double it, or remove it"
    if "end of data" in str(error) or "field larger" in str(error):
        return begin + opened, NEVER_CLOSED
    return begin, f"{error}; correct that line"


def _last_in_quotes(record: list[str], separator: str, escapes: bool) -> tuple[int, str]:
    """The position in `record` where the last quoted cell opens, and the rest of the line after it closes."""
    opened, after = 0, ""
    inside, fresh = False, True  # inside quotes; at the beginning of a cell
    for k, line in enumerate(record):
        at = 0
        while at < len(line):
            sign = line[at]
            if inside and ((escapes and sign == "\\") or line[at : at + 2] == '""'):
                at += 1  # the next character is part of the cell
            elif inside and sign == '"':
                inside, after = False, line[at + 1 :]
            elif not inside and fresh and sign == '"':
                inside, fresh, opened, after = True, False, k, ""
            elif not inside:
                fresh = sign == separator or (fresh and sign == " ")
            at += 1
    return opened, after


class _Fed:
    """Lines for Python's reader, which knows separators of one character only, and would drop every backslash."""

    def __init__(self, text: io.TextIOWrapper, delimiter: str, escapes: bool) -> None:
        self.text, self.delimiter, self.escapes = text, delimiter, escapes
        self.record: list[str] = []  # lines since it was last cleared

    def __iter__(self) -> Iterator[str]:
        for line in self.text:
            if len(self.delimiter) > 1:
                line = line.replace("\t", " ").replace(self.delimiter, "\t")
            elif self.delimiter == " ":
                line = line.replace("\t", " ").strip() + "\n"
            if self.escapes and "\\" in line:
                line = BACKSLASH.sub(_kept, line)
            self.record.append(line)
            yield line


def _kept(found: re.Match[str]) -> str:
    """A backslash before a quote or a backslash is an escape; any other is kept."""
    return found[0] if found[1] else "\\\\"


def _taken(out: io.StringIO) -> bytes:
    text = out.getvalue().encode("utf-8")
    out.seek(0)
    out.truncate()
    return text


def _ended(found: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks and a line end, so that the last byte is checked too."""
    yield from found
    yield b"\n"
