"""Whether a matrix can hold the samples that a model was fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rslm.data import ObservedMatrix, parts
from rslm.runtime.types import Floats, Indices64

REMEMBERED = 4096


@dataclass(frozen=True)
class FittedSamples:
    """The shape of the fitted matrix and a small sample of its entries.

    Held-out entries of the fitted samples are at other positions than the remembered entries, and training data have
    equal values there. Another matrix of the same shape has different values at some of these positions.
    """

    shape: tuple[int, int]
    rows: Indices64
    cols: Indices64
    values: Floats

    @classmethod
    def of(cls, data: ObservedMatrix) -> Self:
        entries = cls.remembered(len(data))
        rows = np.searchsorted(data.indptr, entries, side="right") - 1
        return cls(data.shape, rows, data.index[entries].astype(np.int64), data.values[entries])

    @staticmethod
    def remembered(count: int) -> Indices64:
        """Positions of the entries that are kept, of `count` entries."""
        return np.unique(np.linspace(0, count - 1, REMEMBERED).astype(np.int64))

    def may_be(self, data: ObservedMatrix) -> bool:
        if data.shape != self.shape:
            return False
        for i, j, value in zip(self.rows, self.cols, self.values, strict=True):
            start, end = data.indptr[i], data.indptr[i + 1]
            at = start + np.searchsorted(data.index[start:end], j)
            if at < end and data.index[at] == j and not np.isclose(data.values[at], value, rtol=1e-6, atol=0.0):
                return False
        return True

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        return {"seen_rows": self.rows, "seen_cols": self.cols, "seen_values": self.values}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], shape: tuple[int, int]) -> Self:
        rows = parts.positions(arrays, "seen_rows", None, shape[0])
        cols = parts.positions(arrays, "seen_cols", len(rows), shape[1])
        return cls(shape, rows, cols, parts.floats(arrays, "seen_values", len(rows), single=True))
