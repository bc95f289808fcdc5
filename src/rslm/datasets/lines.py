"""Text of short numbers, one record a line, parsed by NumPy in blocks of many lines: a loop over lines is too slow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rslm.runtime.types import Indices32, Indices64

SIZE = 1 << 22  # bytes parsed at a time: larger blocks are not faster
MOST_DIGITS = 9  # so that a number fits 32 bits
NEWLINE, POINT, ZERO = b"\n.0"

Text = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Block:
    """Some whole lines of a file."""

    name: str  #: of the file, for messages
    first: int  #: the number of the first line
    text: Text  #: ends with a newline

    def refuse(self, pattern: re.Pattern[bytes], needed: str) -> NoReturn:
        """Raise an error with the first line that does not match; some line is known not to."""
        number, line = self.first, b""
        for number, line in enumerate(self.text.tobytes()[:-1].split(b"\n"), self.first):  # noqa: B007
            if not pattern.fullmatch(line):
                break
        shown = line[:40].decode("latin-1") + ("…" if len(line) > 40 else "")
        raise ValueError(f"{self.name}, line {number}: {shown!r}, but {needed} is needed.")


def blocks(stream: IO[bytes], name: str) -> Iterator[Block]:
    """The text in blocks of whole lines, which end with LF or CR LF; empty lines at the end do not count."""
    first, rest, more = 1, b"", b"\n"
    while more:
        more = stream.read(SIZE)
        rest += more
        if b"\r" in rest:
            rest = rest.replace(b"\r\n", b"\n")
        whole = rest[: rest.rfind(b"\n") + 1] if more else rest
        if more and not whole:  # no valid line is that long: let the parser refuse it before it fills the memory
            whole, more = rest, b""
        lines = whole.rstrip(b"\n")
        if lines:
            yield Block(name, first, np.frombuffer(lines + b"\n", dtype=np.uint8))
            first += lines.count(b"\n") + 1
            rest = rest[len(lines) + 1 :]


def whole_numbers(text: Text, starts: Indices64, stops: Indices64) -> Indices32 | None:
    """The numbers text[starts[k] : stops[k]], or None if one of them has another character or too many digits."""
    lengths = stops - starts
    value = np.zeros(len(starts), dtype=np.int32)
    if not len(starts):
        return value
    if lengths.min() < 1 or lengths.max() > MOST_DIGITS:
        return None
    for k in range(int(lengths.max())):
        inside = lengths > k
        digit = text.take(starts + k, mode="clip") - np.uint8(ZERO)  # above 9 if it is not a digit
        if np.any(inside & (digit > 9)):
            return None
        np.copyto(value, 10 * value + digit, where=inside)
    return value


def tenths(text: Text, starts: Indices64, stops: Indices64) -> NDArray[np.uint8] | None:
    """Ten times the numbers text[starts[k] : stops[k]], all of the form 4 or 3.5; None if one of them is not."""
    lengths = stops - starts
    long = lengths == 3
    if not np.all(long | (lengths == 1)):
        return None
    whole = text[starts] - np.uint8(ZERO)
    part = np.where(long, text.take(starts + 2, mode="clip") - np.uint8(ZERO), np.uint8(0))
    if np.any(whole > 9) or np.any(part > 9) or np.any(long & (text.take(starts + 1, mode="clip") != POINT)):
        return None
    return 10 * whole + part


def cell_ends(text: Text, separator: int, cells: int) -> NDArray[Any] | None:
    """Where the cells of every line end, (lines, cells); None if some line has another number of cells."""
    at_newline = text == NEWLINE
    flat = np.flatnonzero(at_newline | (text == separator))
    if len(flat) != cells * np.count_nonzero(at_newline):
        return None
    ends = flat.reshape(-1, cells)
    return ends if at_newline[ends[:, -1]].all() else None
