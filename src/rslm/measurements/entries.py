"""Observed entries of W: (M W)_p = W[i_p, t_p]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data import ObservedMatrix
from rslm.kernels import Columns
from rslm.measurements.base import Measurement
from rslm.runtime.types import Floats, Indices64


class Entries(Measurement):
    """Observed entries of a d × T matrix, stored by columns.

    Parameters
    ----------
    Y : ObservedMatrix, scipy.sparse matrix or array
        The d × T matrix. Stored entries of a sparse matrix are observed, zeros included; NaN in an array is missing.
        The weights of an ObservedMatrix become those of the observations.
    """

    traits = frozenset({"entries"})
    couples_columns = False
    locatable = True

    def __init__(self, Y: Any) -> None:
        by_columns = ObservedMatrix.from_any(Y).transposed()
        self._set(by_columns)

    @classmethod
    def of_transposed(cls, X: ObservedMatrix) -> Entries:
        """The entries of W = Xᵀ. X is stored by rows, which are the columns of W, so nothing is copied."""
        entries = cls.__new__(cls)
        entries._set(X)
        return entries

    @classmethod
    def of_columns(cls, columns: Columns, values: Floats, weights: Floats | None = None) -> Entries:
        """Entries with these values and weights, and an existing pattern (`columns`)."""
        entries = cls.__new__(cls)
        entries.columns, entries.values, entries.weights = columns, values, weights
        return entries

    def _set(self, by_columns: ObservedMatrix) -> None:
        self.columns = Columns(by_columns.indptr, by_columns.index, by_columns.shape[1])
        self.values: Floats = by_columns.values
        self.weights: Floats | None = by_columns.weights

    def apply(self, X: Floats, V: Floats, threads: int = 1) -> Floats:
        return self.columns.predict(X, V, threads)

    def adjoint_times(self, z: Floats, Y: Floats, threads: int = 1) -> Floats:
        return self.columns.scatter(z, Y, threads)

    def adjoint_transposed_times(self, z: Floats, X: Floats, threads: int = 1) -> Floats:
        return self.columns.gather(z, X, threads)

    def adjoint_gram(
        self, z: Floats, column_weights: Floats | None, threads: int
    ) -> Callable[[Floats, Floats | None], Floats]:
        values = self.columns.divided(z, column_weights)

        def gram(X: Floats, Y: Floats | None = None) -> Floats:
            return self.columns.gram(values, X, threads, Y)

        return gram

    def located(self) -> tuple[Entries, Floats]:
        return self, np.ones(self.shape[0])

    def groups(self, side: int) -> Indices64:
        return self.places()[side]

    def index_in(self, structure: Any) -> Indices64 | None:
        index: Indices64 | None = structure.place(*self.places())
        return index

    def of_parameters(self, structure: Any, w: Floats) -> Floats:
        entries: Floats = structure.entries(w, *self.places())
        return entries

    def to_parameters(self, structure: Any, z: Floats) -> Floats:
        parameters: Floats = structure.spread(z, *self.places())
        return parameters

    def arrays(self) -> dict[str, list[NDArray[Any]]]:
        arrays: dict[str, list[NDArray[Any]]] = {"values": [self.values]}
        arrays["positions"] = [self.columns.indptr, self.columns.index]
        return arrays if self.weights is None else arrays | {"weights": [self.weights]}

    def places(self) -> tuple[Indices64, Indices64]:
        """Row and column of every entry."""
        return self.columns.places()

    @property
    def shape(self) -> tuple[int, int]:
        """(d, T)"""
        return self.columns.shape

    def __len__(self) -> int:
        return self.columns.entries

    def __repr__(self) -> str:
        return f"Entries({self.shape[0]} × {self.shape[1]}, {len(self)} observed)"
