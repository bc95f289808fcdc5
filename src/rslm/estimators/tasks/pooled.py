"""One model for all tasks with the square loss, for many ridges: sums over the rows are computed once.

min  Σ ω (y − x·b − μ − c_t)² + λ_b |b|² + λ_c |c|²,    c_t = (Σ_t ω(y − x·b − μ)) / (n_t + λ_c)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from rslm.location import Effects
from rslm.measurements import Tasks
from rslm.runtime.types import Floats

WIDEST = 2000  # features above which their products are not formed


class PooledSquares:
    """The sums of some rows."""

    def __init__(self, data: Tasks) -> None:
        rows, tasks = data.places()
        d, T = data.shape
        n, is_sparse = data.features.shape[0], data.features.sparse
        X: Any = data.features.X
        weights = np.ones(len(data)) if data.weights is None else data.weights
        of_rows, total = np.bincount(rows, weights, n), weights * data.values
        self.shape = d, T
        self.counts: Floats = np.bincount(tasks, weights, T).astype(np.float64)
        self.targets: Floats = np.bincount(tasks, total, T).astype(np.float64)
        by_task = sparse.csr_array((weights, (tasks, rows)), shape=(T, n))
        self.sums: Floats = np.column_stack([_dense(by_task @ X), self.counts])
        weighted: Any = sparse.diags_array(of_rows) @ X if is_sparse else of_rows[:, None] * X
        self.gram = np.zeros((d + 1, d + 1))
        self.gram[:d, :d] = _dense(X.T @ weighted)
        self.gram[d] = self.gram[:, d] = self.sums.sum(axis=0)
        self.right: Floats = np.append(np.asarray(X.T @ np.bincount(rows, total, n)), self.targets.sum())

    def effects(self, common: float | None, intercepts: float | None, mean: bool) -> Effects:
        """The best effects for these ridges; without a part where its ridge is None."""
        d, T = self.shape
        share = np.zeros(T) if intercepts is None else 1.0 / (self.counts + intercepts)
        A = self.gram - (self.sums.T * share) @ self.sums
        right = self.right - self.sums.T @ (share * self.targets)
        used = np.append(np.full(d, common is not None), mean)
        A = A[np.ix_(used, used)] + np.diag(np.append(np.full(d, common or 0.0), 0.0)[used])
        x = np.zeros(d + 1)
        x[used] = np.linalg.lstsq(A, right[used], rcond=None)[0]
        columns = share * (self.targets - self.sums @ x)
        return Effects(float(x[d]), x[:d], columns, np.zeros(0))


def _dense(M: Any) -> Floats:
    return np.asarray(M.toarray() if hasattr(M, "toarray") else M)
