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
from rslm.location import Effects, Location
from rslm.location.packing import Packing
from rslm.losses import Loss
from rslm.measurements import Entries
from rslm.problem import Problem
from rslm.runtime.types import Floats
from rslm.structures import Box


@dataclass(frozen=True)
class Offsets:
    """The location of new samples: what all of them share, and the ridge of their own effects."""

    mean: float
    columns: Floats  #: effects of the features
    ridge: float | None  #: of the effect of a sample, in units of the objective; None for no effect


@dataclass(frozen=True)
class Subspace:
    """The features' side of a fitted matrix, scaled so that the penalty of a sample is ½ q |a|²."""

    features: Floats  #: (n_features, rank)
    C: float
    weighting: float
    mean_count: float  #: mean number of entries of a fitted sample, to which `weighting` is relative
    box: Box | None = None  #: bounds of the data matrix
    offsets: Offsets | None = None  #: None where there is no location
    units: Floats | None = None  #: by which the features are divided before solving

    def fold_in(self, data: ObservedMatrix, loss: Loss, threads: int) -> tuple[Floats, Floats]:
        """The codes a of all samples, (n_samples, rank), and their effects."""
        found, scale = self._solve(data, loss, threads)
        effects = np.zeros(data.shape[0]) if found.effects is None else found.effects.columns
        return found.V * scale, effects * (data.row_counts() > 0) * scale

    def left_out(self, data: ObservedMatrix, loss: Loss, threads: int) -> Floats:
        """Every observed entry predicted from the other entries of its sample."""
        found, scale = self._solve(data, loss, threads)
        predicted = found.left_out() * scale
        return predicted if self.units is None else np.asarray(predicted * self.units[data.index])

    def _structure(self, samples: int, scale: float) -> Box | None:
        if self.box is not None and self.box.shape[0] not in (1, samples):
            raise ValueError(
                f"the bounds are those of {self.box.shape[0]} samples, one by one; for {samples} other samples they "
                "are not known"
            )
        box = solved_box(self.box, scale)
        return None if box is None else box.transposed()

    def _solve(self, data: ObservedMatrix, loss: Loss, threads: int) -> tuple[ColumnsSolution, float]:
        """The inner solution, and the scale of its V and of its predictions."""
        weights = count_weights(data.row_counts(), self.mean_count, self.weighting)
        if self.units is not None:
            data = data.with_values(data.values / self.units[data.index])
        located, largest = self.offsets, float(np.abs(data.values).max(initial=0.0))
        if located is not None:  # new entries may be much smaller than those of the fit
            largest = max(largest, float(np.abs(located.columns + located.mean).max()))
        scale = scale_of(largest, self.box, loss)
        if scale != 1.0:
            data = data.with_values(data.values / scale)
        box = self._structure(data.shape[0], scale)
        location = None if located is None else Location(True, 0.0, located.ridge)
        problem = Problem(loss, Entries.of_transposed(data), box, self.C, None, weights, location)
        point = self.features
        if located is not None:  # effects of the features are fixed here, so that their ridge does not matter
            effects = Effects(0.0, (located.columns + located.mean) / scale, np.zeros(data.shape[0]), np.zeros(0))
            point = Packing.of(problem).packed(self.features, effects)
        with np.errstate(over="ignore", invalid="ignore"):  # numbers of very different sizes
            # The inner solvers of entries work column by column, with bounds and without.
            return cast(ColumnsSolution, choose(problem, threads).solve(point)), scale
