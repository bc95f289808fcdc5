"""The leverage of an observation, its influence on its own prediction: x_iᵀ M_t⁻¹ x_i, from the systems M_t."""

from __future__ import annotations

import numpy as np

from rslm.kernels import Columns, Systems
from rslm.runtime.types import Floats

BLOCK = 1 << 21  # numbers in memory at a time, instead of entries × rank²


def leverages(columns: Columns, X: Floats, factors: Systems, n_threads: int) -> Floats:
    """x_iᵀ M_t⁻¹ x_i of every entry (i, t)."""
    if factors.data is None:  # T r² numbers are too many
        return factors.leverages(n_threads)
    rank, T = X.shape[1], columns.shape[1]
    inverse = np.empty((T, rank, rank))
    for k in range(rank):
        unit = np.zeros((T, rank))
        unit[:, k] = 1.0
        inverse[:, :, k] = factors.solve(unit, n_threads)
    of_column = np.repeat(np.arange(T), np.diff(columns.indptr))
    out = np.empty(columns.entries)
    block = max(BLOCK // rank**2, 1)
    for start in range(0, columns.entries, block):
        at = slice(start, start + block)
        x = X[columns.index[at]]
        with np.errstate(over="ignore", invalid="ignore"):
            out[at] = np.einsum("pa,pab,pb->p", x, inverse[of_column[at]], x, optimize=True)
    out[~np.isfinite(out)] = 0.0  # the matrix is numerically singular, so its inverse is meaningless
    return out
