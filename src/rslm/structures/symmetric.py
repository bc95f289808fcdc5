"""Symmetric structure: W = Wᵀ; w holds the lower triangle row by row."""

from __future__ import annotations

import numpy as np

from rslm.runtime.types import Floats, Indices64
from rslm.structures.linear import LinearStructure, checked_count


class Symmetric(LinearStructure):
    """Symmetric matrices. Products form the dense matrix, which has only twice as many numbers as w.

    Parameters
    ----------
    side : int
        Number of rows and columns, d = T.
    """

    tested = True

    def __init__(self, side: int) -> None:
        side = checked_count("side", side)
        self.shape, self.size = (side, side), side * (side + 1) // 2
        self._lower = np.tril_indices(side)

    def matrix(self, w: Floats) -> Floats:
        W = np.zeros(self.shape)
        W[self._lower] = w
        W.T[self._lower] = w
        return W

    def times(self, w: Floats, Y: Floats) -> Floats:
        return np.asarray(self.matrix(w) @ Y)

    def transposed_times(self, w: Floats, X: Floats) -> Floats:
        return self.times(w, X)

    def adjoint(self, X: Floats, Y: Floats) -> Floats:
        W = X @ Y.T
        both = W[self._lower] + W.T[self._lower]
        both[self.place(np.arange(self.shape[0]), np.arange(self.shape[0]))] *= 0.5
        return np.asarray(both)

    def gram(self, w: Floats) -> Floats:
        return self.counts * w

    @property
    def counts(self) -> Floats:
        return np.where(self._lower[0] == self._lower[1], 1.0, 2.0)

    def place(self, rows: Indices64, columns: Indices64) -> Indices64:
        i, j = np.maximum(rows, columns), np.minimum(rows, columns)
        return np.asarray(i * (i + 1) // 2 + j)

    def __repr__(self) -> str:
        return f"Symmetric({self.shape[0]})"
