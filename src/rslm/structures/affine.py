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
        is_sparse = bool(sparse.issparse(offset))
        given: Any = sparse.csr_array(offset) if is_sparse else np.array(offset, dtype=np.float64)
        if given.shape != structure.shape:
            raise ValueError(f"offset must have the shape of the structure, {structure.shape}; got {given.shape}")
        if not np.isfinite(given.data if is_sparse else given).all():
            raise ValueError("offset must be finite")
        if structure.offset is not None:  # both are added
            given = structure.offset_matrix() + (given.toarray() if is_sparse else given)
        self.structure, self.offset = structure, given
        self.shape, self.size = structure.shape, structure.size

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
