"""New samples at a fixed subspace of the features.

A sample with observed entries x_j is coded by a = argmin C Σ (x_j − f_jᵀa)² + ½ q |a|², with f the rows of the
subspace: the inner problem of one column. Samples of the fit get their own factors back, as far as it converged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rslm._typing import Floats
from rslm.data import ObservedMatrix
from rslm.kernels import Columns, Solved

BLOCK = 1 << 14  # entries at a time, so that memory is not entries × rank²


@dataclass(frozen=True)
class Subspace:
    """The features' side of a fitted matrix, scaled so that the penalty of a sample is ½ q |a|²."""

    features: Floats  #: (n_features, rank)
    C: float
    weighting: float
    mean_count: float  #: entries of an average sample, to which `weighting` is relative

    def fold_in(self, data: ObservedMatrix, threads: int) -> Floats:
        """The codes a of all samples, (n_samples, rank)."""
        return self._solve(data, threads).V

    def fill(self, codes: Floats) -> Floats:
        """The samples with these codes, (n_samples, n_features)."""
        return codes @ self.features.T

    def left_out(self, data: ObservedMatrix, threads: int) -> Floats:
        """Every observed entry predicted from the other entries of its sample: y − e / (1 − h), h its leverage."""
        solved = self._solve(data, threads)
        rank = self.features.shape[1]
        inverse = np.empty((data.shape[0], rank, rank))
        for k in range(rank):
            unit = np.zeros((data.shape[0], rank))
            unit[:, k] = 1.0
            inverse[:, :, k] = solved.factors.solve(unit, threads)
        samples, out = data.rows_of_entries(), np.empty(len(data))
        for start in range(0, len(data), BLOCK):
            at = slice(start, start + BLOCK)
            x = self.features[data.index[at]]
            leverage = np.einsum("pa,pab,pb->p", x, inverse[samples[at]], x, optimize=True)
            out[at] = data.values[at] - solved.residual[at] / (1.0 - leverage)
        return out

    def _solve(self, data: ObservedMatrix, threads: int) -> Solved:
        counts = np.maximum(data.row_counts(), 1)
        ridge = (counts / self.mean_count) ** self.weighting / (2.0 * self.C)
        columns = Columns(data.indptr, data.index, data.shape[1])
        return columns.evaluate(data.values, self.features, ridge, threads)
