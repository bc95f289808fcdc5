"""Matrices of features, dense or sparse, for the kernels of tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rslm.kernels import _native
from rslm.kernels.arrays import integers
from rslm.runtime.types import Floats


class FeatureRows:
    """The rows of a feature matrix in the form that the kernels for tasks need.

    `values` are those of a dense array in double precision, or of a matrix in compressed rows; they are not copied.
    """

    def __init__(
        self,
        values: Floats,
        shape: tuple[int, int],
        pattern: tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]] | None = None,
    ) -> None:
        self.features = shape[1]
        indptr, index = (None, None) if pattern is None else (integers(pattern[0], np.int64), pattern[1])
        index = None if index is None else integers(index, np.int32)
        self._native = _native.Features(indptr, index, values.reshape(-1), *shape)
        stored: Any = (values, index, indptr)
        self._X: Any = values.reshape(shape) if index is None else sparse.csr_array(stored, shape=shape)

    def times(self, U: Floats) -> Floats:
        """x U."""
        return np.asarray(self._X @ U)

    def transposed_times(self, G: Floats) -> Floats:
        """xᵀ G."""
        return np.asarray(self._X.T @ G)
