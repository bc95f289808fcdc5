"""The observed entries of a d × T matrix, with the products that methods of completion are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, svds

from rslm.kernels import Columns
from rslm.runtime.types import Floats, Indices64


@dataclass(frozen=True)
class Entries:
    """Values `y` at the places of `columns`, column by column; all values at entries are in this order.

    Everything here runs on `threads` threads, by the kernels of rslm. Ranks up to 64 are fast.
    """

    columns: Columns
    y: Floats
    threads: int = 1

    @classmethod
    def of(cls, rows: Indices64, cols: Indices64, values: Floats, shape: tuple[int, int], threads: int = 1) -> Entries:
        M = sparse.csc_array((np.asarray(values, dtype=np.float64), (rows, cols)), shape=shape)
        M.sort_indices()
        return cls(Columns(M.indptr.astype(np.int64), M.indices.astype(np.int32), shape[0]), M.data, threads)

    @property
    def shape(self) -> tuple[int, int]:
        return self.columns.shape

    def at(self, left: Floats, right: Floats) -> Floats:
        """The entries of left @ right.T at the observed places."""
        return self.columns.predict(left, right, self.threads)

    def times(self, s: Floats, X: Floats) -> Floats:
        """S X, where S has the values `s` at the observed places and zeros elsewhere."""
        return self.columns.scatter(s, np.ascontiguousarray(X), self.threads)

    def transposed_times(self, s: Floats, X: Floats) -> Floats:
        """Sᵀ X."""
        return self.columns.gather(s, np.ascontiguousarray(X), self.threads)

    def regress(self, left: Floats, ridge: float) -> Floats:
        """For every column t the v that minimises Σ (y_it − left_i v)² + ridge |v|²: (T, rank)."""
        return self.columns.regress(self.y, left, np.full(self.shape[1], ridge), self.threads)[0]

    @cached_property
    def transposed(self) -> Entries:
        """The same entries of the transposed matrix, in its own order."""
        return Entries(self.columns.by_rows, self.columns.in_row_order(self.y), self.threads)

    def operator(self, s: Floats, left: Floats | None = None, right: Floats | None = None) -> LinearOperator:
        """S + left @ right.T as a linear operator; S alone without factors."""

        def times(X: Floats) -> Floats:
            X = np.asarray(X, dtype=np.float64).reshape(self.shape[1], -1)
            out = self.times(s, X)
            return out if left is None or right is None else out + left @ (right.T @ X)

        def transposed_times(X: Floats) -> Floats:
            X = np.asarray(X, dtype=np.float64).reshape(self.shape[0], -1)
            out = self.transposed_times(s, X)
            return out if left is None or right is None else out + right @ (left.T @ X)

        return LinearOperator(
            self.shape,
            matvec=lambda x: times(x).ravel(),
            rmatvec=lambda x: transposed_times(x).ravel(),
            matmat=times,
            rmatmat=transposed_times,
            dtype=np.float64,
        )

    def singular_vectors(self, rank: int) -> tuple[Floats, Floats, Floats]:
        """Leading singular triplets P, s, Q of the data with zeros elsewhere, largest first: the start."""
        start = np.random.default_rng(0).standard_normal(min(self.shape))
        P, s, Qt = svds(self.operator(self.y), rank, v0=start, tol=1e-3)
        order = np.argsort(s)[::-1]
        return np.asarray(P[:, order]), np.asarray(s[order], np.float64), np.asarray(Qt[order].T)
