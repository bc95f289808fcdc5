"""A structure of one's own: every row sums to a given number, as shares or budgets do."""

from __future__ import annotations

import numpy as np

from rslm.structures import LinearStructure


class RowSums(LinearStructure):
    """All d × T matrices whose row i sums to sums[i].

    W = W₀ + P(w): W₀ has equal entries in every row. The first T − 1 columns of P(w) are the parameters, and the last
    one is minus their sum.

    Parameters
    ----------
    sums : array of d numbers
    columns : int
        T.
    """

    def __init__(self, sums, columns):
        sums = np.asarray(sums, dtype=np.float64)
        self.shape, self.size = (len(sums), columns), len(sums) * (columns - 1)
        self.offset = np.repeat(sums[:, None] / columns, columns, axis=1)

    def _free(self, w):
        return w.reshape(self.shape[0], -1)

    def times(self, w, Y):
        return self._free(w) @ (Y[:-1] - Y[-1])

    def transposed_times(self, w, X):
        top = self._free(w).T @ X
        return np.vstack([top, -top.sum(axis=0)])

    def adjoint(self, X, Y):
        return (X @ (Y[:-1] - Y[-1]).T).ravel()

    def gram(self, w):
        free = self._free(w)
        return (free + free.sum(axis=1, keepdims=True)).ravel()

    @property
    def counts(self):
        return np.full(self.size, 2.0)

    def __repr__(self):
        return f"RowSums{self.shape}"
