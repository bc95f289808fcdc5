"""The largest entries of every row of a product of two thin matrices, without forming the product."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data import ObservedMatrix
from rslm.runtime.threads import in_threads, single_threaded_blas
from rslm.runtime.types import Floats, Indices32, Indices64

CELLS = 1 << 19  # entries of the product that are computed at a time: 4 MB in double precision


def largest(
    left: Floats, right: Floats, top: int, known: ObservedMatrix | None, rows: Indices64, threads: int
) -> tuple[Indices32, Floats]:
    """The columns of the largest entries of some rows of `left @ right.T`, best first, and the entries.

    Known entries are left out: where fewer than `top` others remain, columns are −1 and entries −∞. Of equal entries,
    the one with the smaller column comes first. Blocks depend on the shape alone, never on the threads.
    """
    columns, values = np.empty((len(rows), top), dtype=np.int32), np.empty((len(rows), top))
    step = max(1, CELLS // len(right))
    blocks = [slice(start, start + step) for start in range(0, len(rows), step)]

    def rank(block: slice) -> None:
        mine = rows[block]
        with np.errstate(all="ignore"):  # what is not a number is refused below
            found = left[mine] @ right.T
        if known is not None:
            at, entries = entries_of(known.indptr, mine)
            found[at, known.index[entries]] = -np.inf
        columns[block], values[block] = best_of(found, top)

    if len(blocks) > 1:
        with single_threaded_blas():
            in_threads(threads, rank, blocks)
    else:  # one row, perhaps, for which a pool of threads would take longer than the work
        for block in blocks:
            rank(block)
    return columns, values


def entries_of(indptr: Indices64, rows: Indices64) -> tuple[Indices64, Indices64]:
    """The entries of some rows of a compressed matrix: the positions of their rows among `rows`, and their own."""
    counts = indptr[rows + 1] - indptr[rows]
    entries = np.repeat(indptr[rows] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    return np.repeat(np.arange(len(rows)), counts), entries


def best_of(values: Floats, top: int) -> tuple[NDArray[Any], Floats]:
    """The columns of the `top` largest entries of every row in order, and these; −1 for entries that are −∞."""
    rows, n = values.shape
    highest = np.partition(values, n - top, axis=1)[:, n - top :]  # NaN, which is last, included
    if np.isnan(highest).any():
        raise ValueError(
            "some scores are NaN: the factors hold NaN or infinite numbers, or their products overflow. Check the "
            "factors, or fit the model again to data of a smaller scale"
        )
    least = highest.min(axis=1, keepdims=True)
    chosen = values >= least
    if np.count_nonzero(chosen) > rows * top:  # more entries equal the least one than are needed
        equal = values == least
        needed = top - np.count_nonzero(chosen & ~equal, axis=1, keepdims=True)
        chosen &= ~equal | (np.cumsum(equal, axis=1) <= needed)
    columns = np.nonzero(chosen)[1].reshape(rows, top)  # ascending, so that a stable sort keeps the smaller one first
    found = values[chosen].reshape(rows, top)
    order = np.argsort(-found, axis=1, kind="stable")
    columns, found = np.take_along_axis(columns, order, axis=1), np.take_along_axis(found, order, axis=1)
    columns[found == -np.inf] = -1
    return columns, found
