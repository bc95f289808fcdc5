"""A measurement of one's own: differences of two entries of a column, as people tell by how much they prefer one."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from rslm.measurements import Measurement


class Differences(Measurement):
    """W[i, t] − W[j, t] for given rows i, j and columns t.

    Parameters
    ----------
    first, second, column : arrays of n whole numbers
        i, j and t.
    values : array of n numbers
        What was observed.
    shape : (d, T)
    """

    def __init__(self, first, second, column, values, shape):
        self.first, self.second, self.column = np.asarray(first), np.asarray(second), np.asarray(column)
        self.values, self._shape = np.asarray(values, dtype=np.float64), shape

    @property
    def shape(self):
        return self._shape

    def apply(self, X, V, threads=1):
        return np.einsum("pk,pk->p", X[self.first] - X[self.second], V[self.column])

    def adjoint(self, z):
        rows, columns = np.concatenate([self.first, self.second]), np.concatenate([self.column, self.column])
        return sparse.coo_array((np.concatenate([z, -z]), (rows, columns)), shape=self.shape).tocsr()

    def __repr__(self):
        return f"Differences({len(self)} of {self.shape[0]} × {self.shape[1]})"
