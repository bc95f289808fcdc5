"""How much the prediction of a row varies with the few rows that its task was learned from.

Within a fixed subspace, f = Uᵀx, task t is a ridge regression on f and a constant. The leverage of a row is
gᵀ A_t⁻¹ g with g = (f, 1) and A_t = Σ ω g gᵀ + the ridges: the variance of its prediction, in units of the noise. It
takes the covariance of f within a task to be that of all tasks, about the task's own mean:

    A_t = n_t (Σ + m_t m_tᵀ) + ridges

So a model keeps one matrix for all tasks, and of every task its number of rows and their mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from rslm.data import parts
from rslm.measurements import Tasks
from rslm.runtime.types import Floats, Indices64
from rslm.storage.container import Arrays

BLOCK = 1 << 16  # rows at a time
LEAST_RIDGE = 1e-6  # of intercepts, in rows: one that is not penalised has the same leverage to 6 digits


@dataclass(frozen=True, eq=False)
class Ridges:
    """The penalties of a task's own part, in units of rows."""

    directions: float  #: 1 / (curvature of the loss · C)
    intercept: float | None  #: None if a task has no intercept of its own


@dataclass(frozen=True, eq=False)
class Leverage:
    """The rows that the tasks were learned from, in a basis in which their directions are uncorrelated within tasks."""

    basis: Floats  #: (r, r), orthonormal
    spread: Floats  #: (r,): the variances within tasks
    means: Floats  #: (n_tasks, r)
    counts: Floats  #: (n_tasks,): sums of weights
    ridges: Ridges

    @classmethod
    def of(cls, data: Tasks, U: Floats, ridges: Ridges, n_threads: int) -> Leverage:
        """Of rows that were learned from."""
        F, (rows, tasks), T = data.features.times(U, n_threads), data.places(), data.shape[1]
        weights = np.ones(len(data)) if data.weights is None else data.weights
        of_rows, counts = np.bincount(rows, weights, len(F)), np.bincount(tasks, weights, T).astype(np.float64)
        middle = of_rows @ F / of_rows.sum()
        F -= middle  # so that a large mean costs the covariance no digits
        by_task = sparse.csr_array((weights, data.columns.index, data.columns.indptr), shape=(T, len(F)))
        means = np.asarray(by_task @ F) / counts[:, None]
        blocks = (slice(k, k + BLOCK) for k in range(0, len(F), BLOCK))
        within = sum((F[b].T * of_rows[b]) @ F[b] for b in blocks) - (means.T * counts) @ means
        return cls.of_moments(within / counts.sum(), middle + means, counts, ridges)

    @classmethod
    def of_moments(cls, within: Floats, means: Floats, counts: Floats, ridges: Ridges) -> Leverage:
        """From the covariance within tasks, and the means and numbers of rows of the tasks."""
        values, basis = np.linalg.eigh(np.nan_to_num(within))
        return cls(basis, np.maximum(values, 0.0), means @ basis, counts, ridges)

    def at(self, F: Floats, rows: Indices64, tasks: Indices64) -> Floats:
        """The leverage of these rows of F = X U, each in its task."""
        turned, found = F @ self.basis, np.empty(len(rows))
        for start in range(0, len(rows), BLOCK):
            block = slice(start, start + BLOCK)
            found[block] = self._of(turned[rows[block]], tasks[block])
        return found

    def _of(self, f: Floats, tasks: Indices64) -> Floats:
        """By the inverse of a diagonal matrix, and a correction of rank one for the mean of the task."""
        n, mean = self.counts[tasks], self.means[tasks]
        free = 0.0 if self.ridges.intercept is None else 1.0 / max(self.ridges.intercept, LEAST_RIDGE)
        with np.errstate(all="ignore"):  # of features of extreme size
            share = 1.0 / (self.ridges.directions + n[:, None] * self.spread)
            own, both, middle = (np.einsum("pk,pk,pk->p", a, share, b) for a, b in ((f, f), (f, mean), (mean, mean)))
            found = own + free - n * (both + free) ** 2 / (1.0 + n * (middle + free))
        return np.asarray(np.maximum(np.nan_to_num(found, posinf=0.0, neginf=0.0), 0.0))

    # ---- files -------------------------------------------------------------------------------------------------------

    def written(self) -> tuple[Arrays, list[float | None]]:
        arrays: Arrays = {f"leverage_{name}": getattr(self, name) for name in ("basis", "spread", "means", "counts")}
        return arrays, [self.ridges.directions, self.ridges.intercept]

    @classmethod
    def read(cls, arrays: Arrays, facts: Any, rank: int, tasks: int) -> Leverage:
        directions, intercept = facts
        return cls(
            parts.floats(arrays, "leverage_basis", rank, rank),
            parts.floats(arrays, "leverage_spread", rank),
            parts.floats(arrays, "leverage_means", tasks, rank),
            parts.floats(arrays, "leverage_counts", tasks),
            Ridges(float(directions), None if intercept is None else float(intercept)),
        )
