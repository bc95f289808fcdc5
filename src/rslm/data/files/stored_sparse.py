"""The entries of a file written by scipy.sparse.save_npz, read by NumPy only: SciPy does not check the positions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Entries = tuple[NDArray[Any], NDArray[Any], NDArray[Any], tuple[int, int]]  # rows, columns, values, shape


def entries(arrays: Arrays) -> Entries:
    """Stored entries, including zeros. Positions are checked against the shape, except those of COO."""
    form = arrays["format"].item()
    form = form.decode("ascii") if isinstance(form, bytes) else form
    size, values = arrays["shape"], arrays["data"]
    if size.shape != (2,) or size.dtype.kind not in "iu" or (size < 0).any():
        raise ValueError("its shape is not two whole numbers")
    shape = int(size[0]), int(size[1])
    if form == "coo":
        rows, cols = arrays["coords"] if "coords" in arrays else (arrays["row"], arrays["col"])
        return rows, cols, values, shape
    if form == "dia":
        return *_diagonals(values, arrays["offsets"], shape), shape
    if form == "bsr":
        return *_blocks(values, arrays["indices"], arrays["indptr"], shape), shape
    if form not in ("csr", "csc"):
        raise ValueError(f"there is no sparse format {form!r}")
    major, minor = shape if form == "csr" else shape[::-1]
    outer, inner = _compressed(arrays["indices"], arrays["indptr"], major, minor)
    if values.shape != inner.shape:
        raise ValueError(f"there are {values.size} values at {len(inner)} positions")
    return (outer, inner, values, shape) if form == "csr" else (inner, outer, values, shape)


def _compressed(
    indices: NDArray[Any], starts: NDArray[Any], major: int, minor: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The positions of compressed rows or columns."""
    if (
        indices.dtype.kind not in "iu"
        or starts.dtype.kind not in "iu"
        or indices.ndim != 1
        or starts.shape != (major + 1,)
    ):
        raise ValueError("its positions are not lists of whole numbers, or their lengths do not fit the shape")
    if starts[0] != 0 or starts[-1] != len(indices) or np.any(starts[1:] < starts[:-1]):
        raise ValueError("the starts of its rows or columns are not in order")
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < minor:
        raise ValueError(f"a position is not below {minor}")
    return np.repeat(np.arange(major), starts[1:].astype(np.int64) - starts[:-1].astype(np.int64)), indices


def _blocks(
    values: NDArray[Any], indices: NDArray[Any], starts: NDArray[Any], shape: tuple[int, int]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    if values.ndim != 3 or min(values.shape[1:]) < 1 or shape[0] % values.shape[1] or shape[1] % values.shape[2]:
        raise ValueError("its blocks do not fit its shape")
    high, wide = values.shape[1:]
    outer, inner = _compressed(indices, starts, shape[0] // high, shape[1] // wide)
    if len(inner) != len(values):
        raise ValueError(f"there are {len(values)} blocks at {len(inner)} positions")
    rows = outer[:, None, None] * high + np.arange(high)[None, :, None]
    cols = inner.astype(np.int64)[:, None, None] * wide + np.arange(wide)[None, None, :]
    return np.broadcast_to(rows, values.shape).ravel(), np.broadcast_to(cols, values.shape).ravel(), values.ravel()


def _diagonals(
    values: NDArray[Any], offsets: NDArray[Any], shape: tuple[int, int]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    if values.ndim != 2 or offsets.shape != (len(values),) or offsets.dtype.kind not in "iu":
        raise ValueError("the numbers of its diagonals and of their offsets differ")
    cols = np.arange(values.shape[1], dtype=np.int64)[None, :]
    rows = cols - offsets.astype(np.int64)[:, None]
    inside = (rows >= 0) & (rows < shape[0]) & (cols < shape[1])
    return rows[inside], np.broadcast_to(cols, rows.shape)[inside], values[inside]
