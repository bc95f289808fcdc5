"""The dialect of a text table: delimiter, header, decimals and line ends, guessed from its beginning."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from rslm.data.files.cells import MISSING, is_number, was_meant_as_number
from rslm.data.files.names import names_columns

__all__ = ["MISSING", "NAMES", "ONE_COLUMN", "SAMPLE", "Dialect", "guess"]

SAMPLE = 1 << 16  # bytes from which the dialect is guessed
LINES = 100
MORE_LINES = 2000  # for decimal commas, which may come late in a column of mostly whole numbers
MOST_CUT = 20  # lines that a quoted cell may have if the end of the sample cuts it
DELIMITERS = ("::", "\t", ",", ";", "|", " ")
NAMES = {"::": "'::'", "\t": "tab", ",": "comma", ";": "semicolon", "|": "'|'", " ": "space"}
ONE_COLUMN = "\x1f"  # ASCII's unit separator, which occurs in no text: nothing is split
THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")
UNSPLIT = re.compile("::|[\t;|]|[0-9] [0-9]")  # in a cell: perhaps another delimiter
ESCAPE = re.compile(r'\\"(?![,;|\t\r\n: ]|$)')  # not at the end of a cell, so an escaped quote within it
ESCAPED = re.compile(r'\\(["\\])')
Record = tuple[int, list[str]]  # line from 1, cells


@dataclass(frozen=True)
class Dialect:
    delimiter: str
    header: bool
    bare_returns: bool  #: lines end with a carriage return only
    decimal_comma: bool = False
    remarks: tuple[str, ...] = ()  #: what else was found: another encoding, escaped quotes, line breaks in cells

    def __str__(self) -> str:
        by = NAMES.get(self.delimiter, repr(self.delimiter))
        split = "text of one column" if self.delimiter == ONE_COLUMN else f"text separated by {by}"
        comma = ", decimal comma" if self.decimal_comma else ""
        return ", ".join([f"{split}, {'with' if self.header else 'without'} a header{comma}", *self.remarks])


def guess(
    sample: bytes, name: str, delimiter: str | None = None, header: bool | None = None, one_column: bool = False
) -> Dialect:
    """The dialect of a file that begins with `sample`; what is given is not guessed. `one_column`: one is enough."""
    delimiter = "\t" if delimiter in ("\\t", "tab") else delimiter  # as it is written on a command line
    if delimiter is not None and (not delimiter or set(delimiter) & set('"\r\n\0')):
        raise ValueError(
            f"the delimiter is {delimiter!r}, but a character that separates cells is needed, such as ',' or ';'"
        )
    if b"\0" in sample:
        line = sample[: sample.index(b"\0")].count(b"\n") + 1
        raise ValueError(
            f"{name}, line {line}: there is a NUL byte, so this is not text, or is UTF-16 without a byte order mark; "
            "if so, give the encoding: utf-16-le or utf-16-be"
        )
    bare_returns = b"\r" in sample and b"\n" not in sample
    try:
        text = sample.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        cut_sign = error.start >= len(sample) - 4  # the end of the sample cuts a character
        text = sample.decode("utf-8-sig" if cut_sign else "latin-1", errors="ignore")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise ValueError(f"{name} is empty")
    if ESCAPE.search(text):  # only for the guess; `rslm.data.files.quotes` decides how the whole file is read
        text = ESCAPED.sub(lambda found: '""' if found[1] == '"' else "\\", text)
    cut = len(sample) >= SAMPLE
    chosen = delimiter if delimiter is not None else _delimiter(text, cut, name, one_column)
    records = _sampled(text, chosen, cut, MORE_LINES)
    _check_alike(records, chosen, name)
    cells = [cells for _, cells in records]
    comma = chosen != "," and _decimal_comma(records, name)
    found = _has_header(cells[:LINES], comma) if header is None else header
    return Dialect(chosen, found, bare_returns, comma)


def split(text: str, delimiter: str, cut: bool) -> Iterator[Record]:
    """The lines of a table; a quoted cell may contain line ends. `cut`: the text may end anywhere."""
    if len(delimiter) > 1:
        text, delimiter = text.replace("\t", " ").replace(delimiter, "\t"), "\t"
    lines: Iterable[str] = io.StringIO(text, newline="\n")  # str.splitlines would split at other characters too
    if delimiter == " ":  # runs of blanks count as one
        lines = [line.strip() + "\n" for line in lines]
    spaced = delimiter == " " or _quotes_after_blanks(text, delimiter, cut)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=spaced)
    begin = 1
    try:
        for cells in reader:
            if any(map(str.strip, cells)) or len(cells) > 1:
                yield begin, cells
            begin = reader.line_num + 1
    except csv.Error:  # a cell too long for the reader; reading the whole file reports where
        return


def _quotes_after_blanks(text: str, delimiter: str, cut: bool) -> bool:
    """Whether quoted cells follow a blank, as in 1, "a", 2; `rslm.data.files.quotes` checks the whole file."""
    if f'{delimiter} "' not in text:
        return False
    lines = csv.reader(io.StringIO(text, newline="\n"), delimiter=delimiter, skipinitialspace=True, strict=True)
    begin = 0
    try:
        for _ in lines:
            begin = lines.line_num
    except csv.Error as error:  # the sample may end inside quotes
        return cut and "end of data" in str(error) and lines.line_num - begin <= MOST_CUT
    return True


def _sampled(text: str, delimiter: str, cut: bool, most: int) -> list[Record]:
    records = list(islice(split(text, delimiter, cut), most + 1))
    return records[:-1] if len(records) > most or (cut and len(records) > 1) else records  # the sample may cut the last


def _delimiter(text: str, cut: bool, name: str, one_column: bool) -> str:
    """The delimiter that splits all lines, also the header, into the same number of cells, and best into numbers."""
    keys: dict[str, tuple[float, ...]] = {}
    for candidate in DELIMITERS:
        records = [cells for _, cells in _sampled(text, candidate, cut, LINES)]
        counts = [len(cells) for cells in records]
        usual = max(set(counts), key=counts.count, default=1)
        alike = counts.count(usual) / max(len(counts), 1)
        if usual == 1 or (alike < 0.5 and len(counts) > 2):
            continue
        below = [cell for cells in (records[1:] or records) for cell in cells]
        numbers = sum(is_number(c, candidate != ",") or was_meant_as_number(c) for c in below)
        if candidate == " " and numbers < len(below):
            numbers = 0  # the blanks are inside of words: "user 3,film 4"
        clean = not any(UNSPLIT.search(cell) for cell in below)
        lines = max(len(records) - 1, 1)
        keys[candidate] = (alike == 1, round(alike, 1), round(numbers / lines, 1), clean, candidate != " ", usual)
    if keys:
        best = max(keys, key=lambda candidate: keys[candidate])  # the first one in case of a tie
        rivals = [c for c in (";", "\t") if c != best and c in keys and keys[c][0] and keys[c][3]]
        if best in (",", " ") and not keys[best][3] and keys[best][0] and rivals:
            raise ValueError(f"{name} may be separated by {NAMES[best]} or by {NAMES[rivals[0]]}; give the delimiter")
        return best
    if one_column:
        return ONE_COLUMN
    line = text.strip().split("\n", 1)[0]
    shown = line if len(line) <= 40 else line[:40] + "…"
    raise ValueError(
        f"{name}: no delimiter found in {shown!r}; a table of at least two columns is needed, separated by comma, "
        "tab, semicolon, '|', '::' or space; if it is separated by anything else, give the delimiter"
    )


def _check_alike(records: list[Record], delimiter: str, name: str) -> None:
    """Raise an error if lines have different numbers of cells: a title, a wrong delimiter or a fault."""
    counts = [len(cells) for _, cells in records[:LINES]]
    if not counts:
        raise ValueError(f"{name} has no table in it: all lines are empty")
    usual = max(set(counts), key=counts.count)
    wrong = next((k for k, count in enumerate(counts) if count != usual), None)
    if wrong is None:
        return
    line, by = records[wrong][0], NAMES.get(delimiter, repr(delimiter))
    *before, last = records[wrong][1]
    if "\n" in last:  # an open quote has taken in the cells that are missing
        line += "".join(before).count("\n")
        raise ValueError(f"{name}, line {line}: a quote opens here and is never closed; close it or remove it")
    cells = f"{counts[wrong]} cell{'s' if counts[wrong] > 1 else ''}, where the others have {usual}, separated by {by}"
    if wrong > 0 or len(counts) <= 2:
        raise ValueError(f"{name}, line {line}: {cells}; correct that line")
    decimal = ", or write decimals with a point if the commas are decimal" if delimiter == "," and not before else ""
    raise ValueError(f"{name}, line {line}: {cells}; take it out if it is a title or a comment{decimal}")


def _decimal_comma(records: list[Record], name: str) -> bool:
    """Whether some column consists of numbers only if 1,5 counts as one."""
    with_comma: list[tuple[int, str]] = []
    below = records[1:] if len(records) > 1 else records
    for k in range(len(below[0][1])):
        column = [(line, cells[k]) for line, cells in below if k < len(cells)]
        if all(is_number(cell, comma=True) for _, cell in column):
            with_comma += [(line, cell.strip()) for line, cell in column if "," in cell]
    if with_comma and all(THOUSANDS.fullmatch(cell) for _, cell in with_comma):
        line, cell = min(with_comma)
        both = f"{cell.replace(',', '.')} or {cell.replace(',', '')}"
        raise ValueError(
            f"{name}, line {line}: the comma in {cell!r} may be a decimal comma or separate thousands; write {both}, "
            "and all other numbers alike"
        )
    return bool(with_comma)


def _has_header(cells: list[list[str]], comma: bool) -> bool:
    """Whether the first line has words in a column where most other lines have (or mean) numbers, or known names."""
    first, others = cells[0], cells[1:]

    def number(cell: str) -> bool:
        return is_number(cell, comma) or was_meant_as_number(cell)

    if not others:
        return not any(number(c) for c in first)
    for k, cell in enumerate(first):
        below = [row[k] for row in others if k < len(row)]
        if not number(cell) and below and sum(map(number, below)) > 0.5 * len(below):
            return True
    return names_columns(first) and not any(first[k] in row[k : k + 1] for row in others for k in range(len(first)))
