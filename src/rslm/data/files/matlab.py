"""Variables of MATLAB files, versions 4 to 7, read in pure Python: every length in a file is checked.

SciPy's reader crashes the interpreter when some of these lengths are wrong. Variables that are neither numbers nor
cells of numbers (text, structures, objects) are skipped.
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

HEADER, VERSION_AT = 128, 124
COMPRESSED, MATRIX = 15, 14
CELL, SPARSE, LONGEST_NUMBER = 1, 5, 15
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
OLD = {0: "f8", 1: "f4", 2: "i4", 3: "i2", 4: "u2", 5: "u1"}  # of version 4
COMPLEX, LOGICAL = 0x08, 0x02
DEEPEST = 8  # levels of nested cells
DENSEST = 1100  # slightly more than the largest compression ratio

Variables = dict[str, Any]  #: arrays, sparse matrices, arrays of objects for cells; None for anything else


class TooNewError(ValueError):
    """The file has version 7.3, which is HDF5."""


def variables(content: bytes) -> Variables:
    """All variables of a file; a ValueError if it is damaged."""
    if content[:4] == b"\x89HDF" or (
        len(content) >= HEADER and content[VERSION_AT : VERSION_AT + 2] in (b"\0\2", b"\2\0")
    ):
        raise TooNewError("version 7.3")
    if len(content) < 20:
        raise ValueError("it is too short")
    return _old(content) if 0 in content[:4] else _Elements.of_file(content)


class _Elements:
    """The elements of a file of version 5 to 7, or those inside one of its elements, in order."""

    def __init__(self, content: memoryview, order: str, depth: int = 0) -> None:
        self.content, self.order, self.depth, self.at = content, order, depth, 0

    @classmethod
    def of_file(cls, content: bytes) -> Variables:
        order = {b"IM": "<", b"MI": ">"}.get(content[HEADER - 2 : HEADER])
        if order is None:
            raise ValueError("its header does not give the byte order")
        elements, found = cls(memoryview(content)[HEADER:], order), Variables()
        while elements.at < len(elements.content):
            kind, data = elements.next()
            if kind == COMPRESSED:
                kind, data = cls(_unpacked(data, order), order).next()
            if kind == MATRIX:
                name, value = cls(data, order).matrix()
                found[name] = value
        return found

    def next(self) -> tuple[int, memoryview]:
        """The type and the bytes of an element."""
        kind, size = struct.unpack_from(f"{self.order}II", self._bytes(self.at, 8))
        if kind >> 16:  # a short one, stored inside its tag
            kind, size = kind & 0xFFFF, kind >> 16
            if size > 4:
                raise ValueError(f"a short element claims {size} bytes")
            data, self.at = self._bytes(self.at + 4, size), self.at + 8
            return kind, data
        data = self._bytes(self.at + 8, size)
        self.at += 8 + (size if kind == COMPRESSED else -(-size // 8) * 8)
        return kind, data

    def _bytes(self, at: int, size: int) -> memoryview:
        if at + size > len(self.content):
            raise ValueError(f"it ends within an element, or the element claims too many bytes: {size:,}")
        return self.content[at : at + size]

    def numbers(self) -> NDArray[Any]:
        kind, data = self.next()
        if kind not in STORED:
            raise ValueError(f"an element has type {kind}, but numbers are needed there")
        dtype = np.dtype(self.order + STORED[kind])
        if len(data) % dtype.itemsize:
            raise ValueError(f"{len(data)} bytes are not a multiple of the size of a number")
        return np.frombuffer(data, dtype=dtype)

    def matrix(self) -> tuple[str, Any]:
        """The name and the value of a variable."""
        if not self.content:  # an empty cell
            return "", np.zeros((0, 0))
        flags = self.numbers()
        if len(flags) < 1 or flags.dtype.kind != "u":
            raise ValueError("a variable has no flags")
        kind, flag = int(flags[0]) & 0xFF, int(flags[0]) >> 8
        if kind != CELL and kind != SPARSE and kind not in CLASSES:
            return self._name_of_other(kind), None
        dims = [int(n) for n in self.numbers()]
        name = bytes(self.next()[1]).decode("latin-1")
        if len(dims) < 2 or min(dims) < 0:
            raise ValueError(f"variable {name!r} has dimensions {dims}")
        if kind == CELL:
            return name, self._cells(dims)
        if kind == SPARSE:
            return name, self._sparse(name, dims, bool(flag & COMPLEX))
        return name, self._dense(name, dims, np.dtype("b1" if flag & LOGICAL else CLASSES[kind]), bool(flag & COMPLEX))

    def _name_of_other(self, kind: int) -> str:
        if kind > LONGEST_NUMBER:  # functions and objects, whose content is not documented
            return f"(class {kind})"
        self.next()
        return bytes(self.next()[1]).decode("latin-1")

    def _dense(self, name: str, dims: list[int], dtype: np.dtype[Any], is_complex: bool) -> Any:
        parts = [self.numbers() for _ in range(2 if is_complex else 1)]
        if any(len(part) != math.prod(dims) for part in parts):
            raise ValueError(
                f"variable {name!r} claims to be {' × '.join(map(str, dims))}, but has {len(parts[0])} numbers"
            )
        if parts[0].dtype.kind == "f" and dtype.kind != "f":
            raise ValueError(f"variable {name!r} has floating-point numbers where whole numbers are needed")
        values = parts[0] + 1j * parts[1] if is_complex else parts[0].astype(dtype)
        return values.reshape(dims, order="F")

    def _sparse(self, name: str, dims: list[int], is_complex: bool) -> Any:
        rows, starts = self.numbers(), self.numbers()
        parts = [self.numbers() for _ in range(2 if is_complex else 1)]
        if len(dims) != 2 or len(starts) != dims[1] + 1 or rows.dtype.kind not in "iu" or starts.dtype.kind not in "iu":
            raise ValueError(f"the sparse variable {name!r} does not have a start for each of its columns")
        count = int(starts[-1])
        if starts[0] != 0 or np.any(starts[1:] < starts[:-1]) or count > min(len(rows), *map(len, parts)):
            raise ValueError(f"the columns of the sparse variable {name!r} are not in order, or are longer than it")
        rows = rows[:count]
        if count and not 0 <= int(rows.min()) <= int(rows.max()) < dims[0]:
            raise ValueError(f"an entry of the sparse variable {name!r} is not within its {dims[0]} rows")
        values = parts[0][:count] + 1j * parts[1][:count] if is_complex else parts[0][:count].astype(np.float64)
        cols = np.repeat(np.arange(dims[1], dtype=np.int64), starts[1:].astype(np.int64) - starts[:-1].astype(np.int64))
        return sparse.coo_array((values, (rows.astype(np.int64), cols)), shape=(dims[0], dims[1]))

    def _cells(self, dims: list[int]) -> Any:
        count = math.prod(dims)
        if self.depth >= DEEPEST or count * 8 > len(self.content):
            raise ValueError(f"cells claim to be {' × '.join(map(str, dims))}, or are nested too deeply")
        cells = np.empty(count, dtype=object)
        for k in range(count):
            kind, data = self.next()
            if kind != MATRIX:
                raise ValueError(f"an element has type {kind}, but a cell is needed there")
            cells[k] = _Elements(data, self.order, self.depth + 1).matrix()[1]
        return cells.reshape(dims, order="F")


def _unpacked(data: memoryview, order: str) -> memoryview:
    """A decompressed element. Its claimed length is checked first, so that no more memory than possible is taken."""
    unpacker = zlib.decompressobj()
    try:
        tag = unpacker.decompress(data, 8)
        size = struct.unpack(f"{order}II", tag)[1]
        if size > DENSEST * len(data) + DENSEST:
            raise ValueError(f"a compressed element claims {size:,} bytes")
        return memoryview(tag + unpacker.decompress(unpacker.unconsumed_tail, max(size, 1)))
    except (zlib.error, struct.error) as error:
        raise ValueError(f"a compressed element is damaged: {error}") from None


def _old(content: bytes) -> Variables:
    """Version 4: each variable is a header of five numbers, a name and a matrix."""
    found, at = Variables(), 0
    while at + 20 <= len(content):
        order = "<" if 0 <= struct.unpack_from("<i", content, at)[0] < 5000 else ">"
        kind, rows, cols, imaginary, length = struct.unpack_from(f"{order}5i", content, at)
        stored, form = OLD.get(kind // 10 % 10), kind % 10
        if (
            not 0 <= kind < 5000
            or stored is None
            or form > 2
            or min(rows, cols, length - 1) < 0
            or imaginary not in (0, 1)
        ):
            raise ValueError(f"there is no header of a variable at byte {at}")
        dtype = np.dtype(order + stored)
        begin, count = at + 20 + length, rows * cols
        at = begin + count * dtype.itemsize * (1 + imaginary)
        if at > len(content):
            raise ValueError(f"a variable claims to be {rows} × {cols}, more than the file can hold")
        name = content[begin - length : begin].rstrip(b"\0").decode("latin-1")
        values = np.frombuffer(content, dtype, count, begin).reshape((rows, cols), order="F")
        if form == 2 and not imaginary:
            found[name] = _old_sparse(name, values)
        else:
            found[name] = None if form or imaginary else values.astype(np.float64)
    if not found or at < len(content):
        raise ValueError(f"there is no header of a variable at byte {at}")
    return found


def _old_sparse(name: str, values: NDArray[Any]) -> Any:
    """A sparse matrix of version 4: lines of row, column and value; the last line has the size."""
    if values.ndim != 2 or values.shape[1] != 3 or not len(values) or not (np.abs(values[:, :2]) < 2**53).all():
        raise ValueError(f"the sparse variable {name!r} has no triplets")
    rows, cols = (values[:, k].astype(np.int64) - 1 for k in (0, 1))
    shape = int(rows[-1]) + 1, int(cols[-1]) + 1
    inside = (rows[:-1] >= 0) & (rows[:-1] < shape[0]) & (cols[:-1] >= 0) & (cols[:-1] < shape[1])
    if min(shape) < 0 or not inside.all():
        raise ValueError(f"an entry of the sparse variable {name!r} is not within its {shape[0]} × {shape[1]}")
    return sparse.coo_array((values[:-1, 2].astype(np.float64), (rows[:-1], cols[:-1])), shape=shape)
