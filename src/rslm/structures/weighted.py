"""A linear structure whose rows and columns have weights: diag(√p) P(w) diag(√q)."""

from __future__ import annotations

from typing import Any

import numpy as np

from rslm.runtime.types import Floats, Indices64
from rslm.structures.linear import LinearStructure


class WeightedStructure(LinearStructure):
    """The matrices of another structure with rows multiplied by √p and columns by √q.

    Parameters
    ----------
    structure : LinearStructure
    row_weights, column_weights : arrays of length d and T, or None
        p and q; None for 1.
    """

    def __init__(self, structure: LinearStructure, row_weights: Floats | None, column_weights: Floats | None) -> None:
        self._structure, self.shape, self.size = structure, structure.shape, structure.size
        d, T = self.shape
        p = np.ones(d) if row_weights is None else row_weights
        q = np.ones(T) if column_weights is None else column_weights
        self._rows, self._columns = np.sqrt(p)[:, None], np.sqrt(q)[:, None]
        if structure.offset is not None:
            self.offset = self._rows * structure.offset_matrix() * self._columns.T
        none = np.zeros(1, dtype=np.int64)
        self._single = structure.place(none, none) is not None  # every entry is one parameter
        self._counts = structure.adjoint(p[:, None], q[:, None]) if self._single else None

    def times(self, w: Any, Y: Floats) -> Floats:
        return self._rows * self._structure.times(w, self._columns * Y)

    def transposed_times(self, w: Any, X: Floats) -> Floats:
        return self._columns * self._structure.transposed_times(w, self._rows * X)

    def adjoint(self, X: Floats, Y: Floats) -> Floats:
        return self._structure.adjoint(self._rows * X, self._columns * Y)

    def gram(self, w: Floats) -> Floats:
        if self._counts is not None:
            return np.asarray(self._counts * w)
        W = self._structure.matrix(w)
        return self._structure.adjoint(self._rows**2 * W, np.diag(self._columns[:, 0] ** 2))

    @property
    def counts(self) -> Floats:
        if self._counts is not None:
            return self._counts
        return self._structure.counts * float(np.mean(self._rows**2) * np.mean(self._columns**2))

    def place(self, rows: Indices64, columns: Indices64) -> None:
        """Entries are multiples of parameters, not parameters."""
        return

    def __repr__(self) -> str:
        return f"WeightedStructure({self._structure!r})"
