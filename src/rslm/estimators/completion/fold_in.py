"""New samples at a fixed subspace of the features.

A sample with observed entries x_j has the code a = argmin C Σ ℓ(x_j, f_jᵀa) + ½ q |a|², where f_j are the rows of the
subspace: the inner problem of one column. Samples of a converged fit get their own factors back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from rslm.data import ObservedMatrix
from rslm.estimators.completion.bounds import solved_box
from rslm.estimators.scaling import count_weights, scale_of
from rslm.inner.base import ColumnsSolution
from rslm.inner.choose import choose
from rslm.losses import Loss
from rslm.measurements import Entries
from rslm.problem import Problem
from rslm.runtime.types import Floats
from rslm.structures import Box


@dataclass(frozen=True)
class Subspace:
    """The features' side of a fitted matrix, scaled so that the penalty of a sample is ½ q |a|²."""

    features: Floats  #: (n_features, rank)
    C: float
    weighting: float
    mean_count: float  #: mean number of entries of a fitted sample, to which `weighting` is relative
    box: Box | None = None  #: bounds of the data matrix

    def fold_in(self, data: ObservedMatrix, loss: Loss, threads: int) -> Floats:
        """The codes a of all samples, (n_samples, rank)."""
        found, scale = self._solve(data, loss, threads)
        return found.V * scale

    def left_out(self, data: ObservedMatrix, loss: Loss, threads: int) -> Floats:
        """Every observed entry predicted from the other entries of its sample."""
        found, scale = self._solve(data, loss, threads)
        return found.left_out() * scale

    def _structure(self, samples: int, scale: float) -> Box | None:
        if self.box is not None and self.box.shape[0] not in (1, samples):
            raise ValueError(
                f"the bounds are those of {self.box.shape[0]} samples, one by one; of {samples} others they are unknown"
            )
        box = solved_box(self.box, scale)
        return None if box is None else box.transposed()

    def _solve(self, data: ObservedMatrix, loss: Loss, threads: int) -> tuple[ColumnsSolution, float]:
        """The inner solution, and the scale of its V and of its predictions."""
        weights = count_weights(data.row_counts(), self.mean_count, self.weighting)
        scale = scale_of(float(np.abs(data.values).max(initial=0.0)), self.box, loss)
        entries = Entries.of_transposed(data if scale == 1.0 else data.with_values(data.values / scale))
        problem = Problem(loss, entries, self._structure(data.shape[0], scale), C=self.C, column_weights=weights)
        # The inner solvers of entries work column by column, with bounds and without.
        return cast(ColumnsSolution, choose(problem, threads).solve(self.features)), scale
