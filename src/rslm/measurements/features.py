"""A matrix of features, dense or sparse, and its products with thin matrices, shared by all threads."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rslm.kernels import Columns, FeatureRows
from rslm.runtime.types import Floats

BLOCK = 1 << 16  # rows of a dense matrix that a thread multiplies at a time
SAMPLE = 100_000  # rows from which XᵀX is estimated
MANY = 2000  # with more features only the diagonal of XᵀX is used
TOO_LARGE = 1e30  # squares of products of larger features with data and C may overflow
LARGEST = np.iinfo(np.int32).max


class FeatureMatrix:
    """X of shape (n, d); it is not copied if it is a float64 array or a CSR matrix."""

    def __init__(self, X: Any) -> None:
        self.X: Any = checked_features(X)
        self.sparse = bool(sparse.issparse(self.X))

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.X.shape[0]), int(self.X.shape[1])

    @property
    def stored(self) -> int:
        """How many numbers are stored."""
        return int(self.X.nnz if self.sparse else self.X.size)

    @cached_property
    def _pattern(self) -> Columns:
        """The pattern of a sparse X: its columns are the rows of X."""
        return Columns(self.X.indptr, self.X.indices, self.X.shape[1])

    def rows(self) -> FeatureRows:
        """The rows in the form that the kernels for tasks take."""
        if not self.sparse:
            return FeatureRows(self.X, self.shape)
        return FeatureRows(self.X.data, self.shape, (self.X.indptr, self.X.indices))

    @cached_property
    def mean(self) -> Floats:
        """The mean of every feature."""
        return np.asarray(self.X.mean(axis=0), dtype=np.float64).ravel()

    @cached_property
    def with_constant(self) -> FeatureMatrix:
        """X with one more column, which is 1."""
        ones: Any = np.ones((self.shape[0], 1))
        stacked: Any = sparse.hstack([self.X, sparse.csr_array(ones)], format="csr") if self.sparse else None
        return FeatureMatrix(stacked if self.sparse else np.hstack([self.X, ones]))

    def times(self, U: Floats, threads: int) -> Floats:
        """X U."""
        if self.sparse:
            return self._pattern.gather(self.X.data, U, threads)
        if len(self.X) <= BLOCK:
            return np.asarray(self.X @ U)
        out = np.empty((self.shape[0], U.shape[1]))
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda at: np.matmul(self.X[at], U, out=out[at]), self._blocks()))
        return out

    def transposed_times(self, G: Floats, threads: int) -> Floats:
        """Xᵀ G."""
        if self.sparse:
            return self._pattern.scatter(self.X.data, G, threads)
        if len(self.X) <= BLOCK:
            return np.asarray(self.X.T @ G)
        with ThreadPoolExecutor(threads) as pool:  # the order of the sum does not depend on the threads
            return np.asarray(sum(pool.map(lambda at: self.X[at].T @ G[at], self._blocks())))

    def _blocks(self) -> list[slice]:
        return [slice(k, k + BLOCK) for k in range(0, self.shape[0], BLOCK)]

    def arrays(self) -> list[NDArray[Any]]:
        """All arrays that define X."""
        return [self.X.data, self.X.indices, self.X.indptr] if self.sparse else [self.X]

    def squares(self) -> Floats:
        """Σ_p x_pj² of every feature."""
        if self.sparse:
            squares = self.X.data.astype(np.float64) ** 2
            return np.bincount(self.X.indices, squares, self.shape[1]).astype(np.float64)  # integers if X is empty
        return np.asarray(np.einsum("pj,pj->j", self.X, self.X))

    @cached_property
    def columns(self) -> list[tuple[Any, Floats, Any]]:
        """For every feature: the rows where it is not zero, its values there, and all features of these rows."""
        if not self.sparse:
            everything = slice(None)
            return [(everything, self.X[:, a], self.X) for a in range(self.shape[1])]
        by_columns = sparse.csc_array(self.X)
        parts = [slice(*by_columns.indptr[a : a + 2]) for a in range(self.shape[1])]
        return [(rows := by_columns.indices[at], by_columns.data[at], self.X[rows]) for at in parts]

    @cached_property
    def spectrum(self) -> tuple[Floats | None, Floats]:
        """Eigenvectors and eigenvalues of XᵀX, estimated from a sample of rows; (None, diagonal) for many features."""
        if self.shape[1] > MANY:
            return None, self.squares()
        step = -(-self.shape[0] // SAMPLE)
        some = self.X[::step]
        gram = some.T @ some
        values, vectors = np.linalg.eigh(gram.toarray() if self.sparse else gram)
        return vectors, np.maximum(values, 0.0) * (self.shape[0] / some.shape[0])


def checked_features(X: Any, name: str = "X") -> Any:
    """X as a dense float64 array or a CSR array; an error if it has the wrong shape or numbers."""
    is_sparse = bool(sparse.issparse(X))  # else the type checker takes X for a type that is not exported
    if is_sparse:
        matrix: Any = sparse.csr_array(X)
        if matrix.dtype not in (np.float64, np.float32):
            matrix = matrix.astype(np.float64)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        if matrix.indices.dtype != np.int32 and matrix.shape[1] <= LARGEST:  # once here, not in every kernel call
            matrix = sparse.csr_array((matrix.data, matrix.indices.astype(np.int32), matrix.indptr), shape=matrix.shape)
        values = matrix.data
    else:
        if np.iscomplexobj(X):
            raise ValueError(f"{name} must be real; got complex numbers")
        matrix = np.ascontiguousarray(X, dtype=np.float64)
        values = matrix
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"{name} must have shape (n, d) with at least one row and one feature; got {np.shape(X)}")
    with np.errstate(invalid="ignore"):
        least, most = float(values.min(initial=0.0)), float(values.max(initial=0.0))  # NaN if there is one
    if not (math.isfinite(least) and math.isfinite(most)):
        raise ValueError(f"{name} must be finite; fill or drop missing features first")
    if max(-least, most) > TOO_LARGE:
        raise ValueError(f"{name} has numbers larger than {TOO_LARGE:g}, whose squares may overflow; rescale them")
    return matrix
