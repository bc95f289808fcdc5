"""New users at fixed factors of the items, and what their scores are made of.

With the factors f_j of all items and the weighted trace norm τ of the learned matrix, a user who took the items j with
confidences ω_j has the factors

    a = argmin C (Σ ω_j (1 − f_jᵀa)² + α₀ Σ_all (f_iᵀa)²) + ½ q τ |a|²
      = M⁻¹ Σ ω_j f_j,   M = Σ ω_j f_j f_jᵀ + α₀ FᵀF + qτ/2C.

Users of a converged fit get their own factors back. The score f_iᵀa of an item is the sum of ω_j f_iᵀM⁻¹f_j over the
items j that the user took: the contributions of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rslm.data import ObservedMatrix
from rslm.estimators.scaling import count_weights
from rslm.inner.entries.all_entries import turned
from rslm.kernels import Columns, Factors
from rslm.runtime.types import Floats, Indices64


@dataclass(frozen=True)
class ItemSpace:
    """The factors of the items, and all settings that the factors of a new user depend on."""

    items: Floats  #: (n_items, rank)
    trace_norm: float  #: of the learned matrix, with row and column weights
    C: float
    alpha0: float
    weighting: float
    mean_count: float  #: mean number of items of a fitted user, to which `weighting` is relative

    @cached_property
    def _turned(self) -> tuple[Floats, Floats, Floats]:
        """The factors in the basis in which FᵀF is diagonal, the diagonal, and the basis."""
        return turned(self.items)

    def _ridges(self, counts: Indices64) -> Floats:
        weights = count_weights(counts, self.mean_count, self.weighting)
        own = np.maximum(weights * (self.trace_norm / (2.0 * self.C)), np.finfo(float).tiny)
        return np.asarray(own[:, None] + self.alpha0 * self._turned[1])

    def _solved(self, data: ObservedMatrix, threads: int) -> tuple[Floats, Factors]:
        columns = Columns(data.indptr, data.index, data.shape[1])
        ridges = self._ridges(data.row_counts())
        return columns.regress(data.values, self._turned[0], ridges, threads, weight=data.weights)

    def fold_in(self, data: ObservedMatrix, threads: int) -> Floats:
        """The factors of users who took the items of `data`, (n_users, rank)."""
        return np.asarray(self._solved(data, threads)[0] @ self._turned[2].T)

    def contributions(self, data: ObservedMatrix, item: int, threads: int) -> Floats:
        """What every item that one user took, the only row of `data`, contributes to the score of an `item`."""
        items, omega = self._turned[0], 1.0 if data.weights is None else data.weights
        direction = self._solved(data, threads)[1].solve(items[[item]], threads)[0]
        return np.asarray(omega * (items[data.index] @ direction))
