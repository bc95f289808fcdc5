"""Affine structure: W = P(w) + W₀ with a linear structure P and a fixed matrix W₀."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from rslm.runtime.types import Floats, Indices64
from rslm.structures.linear import LinearStructure


class Affine(LinearStructure):
    """All matrices of a linear structure, shifted by a fixed one.

    Parameters
    ----------
    structure : LinearStructure
        P, for instance ``Symmetric(n)``.
    offset : array or scipy.sparse array of shape (d, T)
        W₀.
    """

    def __init__(self, structure: LinearStructure, offset: Any) -> None:
        if not isinstance(structure, LinearStructure):
            raise TypeError(f"structure must be a linear structure such as Symmetric(n); got {structure!r}")
        self.structure, self.shape, self.size, self.tested = (
            structure,
            structure.shape,
            structure.size,
            structure.tested,
        )
        self.offset = offset.tocsr() if bool(sparse.issparse(offset)) else np.array(offset)
        self.check_offset()
        self.offset = self.offset.astype(np.float64)
        if structure.offset is not None:  # both are added
            structure.check_offset()
            self.offset = structure.offset_matrix() + self.offset_matrix()

    def validate(self) -> None:
        self.structure.validate()

    def times(self, w: Any, Y: Floats) -> Floats:
        return self.structure.times(w, Y)

    def transposed_times(self, w: Any, X: Floats) -> Floats:
        return self.structure.transposed_times(w, X)

    def adjoint(self, X: Floats, Y: Floats) -> Floats:
        return self.structure.adjoint(X, Y)

    def gram(self, w: Floats) -> Floats:
        return self.structure.gram(w)

    @property
    def counts(self) -> Floats:
        return self.structure.counts

    def place(self, rows: Indices64, columns: Indices64) -> Indices64 | None:
        return self.structure.place(rows, columns)

    def matrix(self, w: Floats) -> Floats:
        return self.structure.matrix(w)

    def __repr__(self) -> str:
        return f"Affine({self.structure!r})"
