"""MatrixMarket read by NumPy only, in blocks of lines: SciPy's reader crashes the interpreter on some wrong files."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rslm.runtime.types import Floats

FORMS = ("coordinate", "array")
FIELDS = ("real", "double", "integer", "pattern", "complex")
SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
NUMBERS = b"0123456789+-.eE \t\r\nnNaAiIfFtTyY"  # characters of a body: those of numbers, nan and infinity
BLOCK = 1 << 22  # bytes of text read at a time
LONGEST = 400  # characters of a number that are read
LEAST = {"coordinate": 4, "array": 2}  # minimum bytes of an entry: its numbers and the separators


@dataclass(frozen=True)
class Market:
    """Entries of a matrix, positions from 0."""

    form: str
    shape: tuple[int, int]
    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    values: Floats


def read(text: bytes, first: int = 1) -> Market:
    """Read a matrix; a ValueError says what is wrong and in which line. `first`: the number of the first line."""
    form, field, symmetry, shape, entries, begin, line = _header(text, first)
    if field == "pattern":
        raise ValueError(f"line {first}: a pattern has no values; add a value to every entry, and write real")
    if field == "complex":
        raise ValueError(f"line {first}: complex values, but real ones are needed")
    if symmetry != "general" and shape[0] != shape[1]:
        raise ValueError(f"line {line}: a {symmetry} matrix cannot be {shape[0]} × {shape[1]}")
    if entries * LEAST[form] > len(text) - begin + 1:
        raise ValueError(
            f"line {line}: it claims {shape[0]} × {shape[1]} with {counted(entries)}, more than the file can hold"
        )
    width = 3 if form == "coordinate" else 1
    numbers = _body(text, begin, line + 1, width)
    if len(numbers) != entries * width:
        raise ValueError(f"line {line} claims {counted(entries)}, but there are {len(numbers) // width}")
    if form == "array":
        rows, cols = _places(shape, symmetry)
        values = numbers
    else:
        positions = numbers.reshape(-1, 3)
        outside = _outside(positions, shape)
        if outside is not None:
            at, k = outside
            raise ValueError(
                f"line {_line_of_entry(text, begin, line + 1, at)}: the {('row', 'column')[k]} is "
                f"{positions[at, k]:g}, where a whole number from 1 to {shape[k]} is needed"
            )
        rows, cols = (positions[:, k].astype(np.int64) - 1 for k in (0, 1))
        values = positions[:, 2].copy()
    if symmetry == "general":
        return Market(form, shape, rows, cols, values)
    sign, off = (-1.0 if symmetry == "skew-symmetric" else 1.0), rows != cols
    both = np.concatenate([rows, cols[off]]), np.concatenate([cols, rows[off]])
    return Market(form, shape, *both, np.concatenate([values, sign * values[off]]))


def counted(entries: int) -> str:
    return f"{entries} {'entry' if entries == 1 else 'entries'}"


def _header(text: bytes, first: int) -> tuple[str, str, str, tuple[int, int], int, int, int]:
    """Form, field, symmetry, shape, entries, where the body begins, and the number of the line before it."""
    end = _end(text, 0)
    words = text[:end].decode("latin-1").lower().split()
    if len(words) != 5 or words[1] != "matrix":
        raise ValueError(
            f"line {first}: a title of five words is needed, such as %%MatrixMarket matrix coordinate real general"
        )
    for word, known in zip(words[2:], (FORMS, FIELDS, SYMMETRIES), strict=True):
        if word not in known:
            raise ValueError(f"line {first}: {word[:40]!r} is not one of {', '.join(known)}")
    form, field, symmetry = words[2:]
    begin, line = end + 1, first + 1
    while begin < len(text):
        end = _end(text, begin)
        size = text[begin:end].strip()
        if size and not size.startswith(b"%"):
            break
        begin, line = end + 1, line + 1
    parts = text[begin:end].split() if begin < len(text) else []
    if len(parts) != (3 if form == "coordinate" else 2) or not all(p.isdigit() and len(p) < 18 for p in parts):
        raise ValueError(f"line {line}: the size of the matrix is needed, and its number of entries")
    rows, cols = int(parts[0]), int(parts[1])
    skew = symmetry == "skew-symmetric"
    triangle = rows * (rows - 1) // 2 if skew else rows * (rows + 1) // 2
    of_array = rows * cols if symmetry == "general" else triangle
    return form, field, symmetry, (rows, cols), int(parts[2]) if form == "coordinate" else of_array, end + 1, line


def _end(text: bytes, begin: int) -> int:
    end = text.find(b"\n", begin)
    return len(text) if end < 0 else end


def _body(text: bytes, begin: int, line: int, width: int) -> Floats:
    """All numbers below the header; `width`: how many are in a line."""
    found: list[Floats] = [np.empty(0)]
    while begin < len(text):
        end = _end(text, min(begin + BLOCK, len(text)))
        block = text[begin:end]
        found.append(_numbers(block, line, width))
        begin, line = end + 1, line + block.count(b"\n") + 1
    return np.concatenate(found)


def _numbers(block: bytes, line: int, width: int) -> Floats:
    if strange := block.translate(None, NUMBERS):
        line += block[: block.index(strange[:1])].count(b"\n")
        raise ValueError(f"line {line}: {strange[:1].decode('latin-1')!r} is not part of a number")
    signs = np.frombuffer(b"\n" + block + b"\n", dtype=np.uint8)
    blank = signs <= ord(" ")
    begins = np.flatnonzero(blank[:-1] & ~blank[1:])
    ends = np.flatnonzero(signs[1:] == ord("\n"))
    counts = np.diff(np.searchsorted(begins, ends), prepend=0)
    wrong = np.flatnonzero((counts != 0) & (counts != width))
    if len(wrong):
        count = int(counts[wrong[0]])
        numbers_in_line = f"{count} {'number' if count == 1 else 'numbers'}"
        needed = "1 is needed" if width == 1 else f"{width} are needed"
        raise ValueError(f"line {line + int(wrong[0])}: {numbers_in_line}, where {needed}")
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # older NumPy only warns of text that is no number
        try:
            numbers: Floats = np.fromstring(block.decode("ascii"), dtype=np.float64, sep=" ")
        except (ValueError, DeprecationWarning):
            numbers = np.empty(0)
    if len(numbers) != len(begins):
        words = ((int(at), block[at : at + LONGEST].split(None, 1)[0]) for at in begins)
        at, word = next((found for found in words if not _is_number(found[1])), (0, b"a word"))
        raise ValueError(f"line {line + block[:at].count(10)}: {word[:40].decode()!r} is not a number")
    return numbers


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _outside(positions: Floats, shape: tuple[int, int]) -> tuple[int, int] | None:
    """The first entry whose row or column is outside of the matrix, and 0 for its row or 1 for its column."""
    found = []
    for k in (0, 1):
        numbers = positions[:, k]
        inside = (numbers >= 1) & (numbers <= shape[k]) & (numbers == np.floor(numbers))
        if not inside.all():
            found.append((int(np.argmin(inside)), k))
    return min(found, default=None)


def _line_of_entry(text: bytes, begin: int, line: int, entry: int) -> int:
    """The line of an entry; every line that is not empty has one."""
    seen = -1
    while begin < len(text):
        end = _end(text, begin)
        seen += bool(text[begin:end].strip())
        if seen == entry:
            break
        begin, line = end + 1, line + 1
    return line


def _places(shape: tuple[int, int], symmetry: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of the entries of an array: column by column, from the diagonal down if it is symmetric."""
    cols, rows = np.divmod(np.arange(shape[0] * shape[1], dtype=np.int64), max(shape[0], 1))
    if symmetry == "general":
        return rows, cols
    kept = rows > cols if symmetry == "skew-symmetric" else rows >= cols
    return rows[kept], cols[kept]
