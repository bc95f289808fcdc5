"""Toeplitz structure: W[i, t] = w[t − i + d − 1], a Hankel matrix upside down."""

from __future__ import annotations

from typing import Any

from rslm.runtime.types import Floats, Indices64
from rslm.structures.hankel import Hankel, transformed
from rslm.structures.linear import LinearStructure


class Toeplitz(LinearStructure):
    """Matrices with equal entries along every diagonal; w holds them from the lower left corner to the upper right.

    Parameters
    ----------
    rows, columns : int
        d and T.
    """

    tested = True

    def __init__(self, rows: int, columns: int) -> None:
        self._hankel = Hankel(rows, columns)
        self.shape, self.size = self._hankel.shape, self._hankel.size

    def parameters(self, w: Any) -> Any:
        return self._hankel.parameters(w)

    def left(self, X: Any) -> Any:
        return transformed(X, lambda: self._hankel.left(X[::-1]).values)

    def right(self, Y: Any) -> Any:
        return self._hankel.right(Y)

    def times(self, w: Any, Y: Any) -> Floats:
        return self._hankel.times(w, Y)[::-1]

    def transposed_times(self, w: Any, X: Any) -> Floats:
        return self._hankel.transposed_times(w, self.left(X))

    def adjoint(self, X: Any, Y: Any) -> Floats:
        return self._hankel.adjoint(self.left(X), Y)

    def gram(self, w: Floats) -> Floats:
        return self._hankel.gram(w)

    @property
    def counts(self) -> Floats:
        return self._hankel.counts

    def place(self, rows: Indices64, columns: Indices64) -> Indices64:
        return self._hankel.place(self.shape[0] - 1 - rows, columns)

    def __repr__(self) -> str:
        return f"Toeplitz{self.shape}"
