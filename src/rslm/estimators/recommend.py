"""The largest entries of rows of the learned matrix, but for those that are known, without forming the matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rslm._typing import Floats, Indices32, Indices64
from rslm.data import ObservedMatrix

CELLS = 1 << 22  # of the matrix that exist at a time


@dataclass(frozen=True)
class Known:
    """Which entries are known, row by row."""

    indptr: Indices64
    index: Indices32

    @classmethod
    def of(cls, data: ObservedMatrix) -> Self:
        return cls(data.indptr, data.index)

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self | None:
        return cls(arrays["known_indptr"], arrays["known_index"]) if "known_indptr" in arrays else None

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        return {"known_indptr": self.indptr, "known_index": self.index}


def largest(
    rows: Indices64, row_factors: Floats, col_factors: Floats, top: int, known: Known | None
) -> tuple[Indices64, Floats]:
    """For every row the columns with the largest values, best first, and these; −∞ where no unknown one is left."""
    if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
        raise ValueError(f"top must be a whole number ≥ 1; got {top!r}")
    top = min(int(top), len(col_factors))
    columns, scores = np.empty((len(rows), top), dtype=np.int64), np.empty((len(rows), top))
    step = max(1, CELLS // len(col_factors))
    for start in range(0, len(rows), step):
        mine = rows[start : start + step]
        values = row_factors[mine] @ col_factors.T
        if known is not None:
            counts = known.indptr[mine + 1] - known.indptr[mine]
            own = np.repeat(known.indptr[mine] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
            values[np.repeat(np.arange(len(mine)), counts), known.index[own]] = -np.inf
        best = np.argpartition(-values, top - 1, axis=1)[:, :top]
        found = np.take_along_axis(values, best, axis=1)
        order = np.argsort(-found, axis=1, kind="stable")
        at = slice(start, start + len(mine))
        columns[at], scores[at] = np.take_along_axis(best, order, axis=1), np.take_along_axis(found, order, axis=1)
    return columns, scores
