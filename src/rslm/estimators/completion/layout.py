"""From the user's samples × features to the solver's d × T and back, where d is the smaller side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rslm.certificate.relaxation import finite_amount
from rslm.data import Labels, ObservedMatrix
from rslm.estimators.completion.asked import standardised
from rslm.estimators.completion.bounds import beyond, solved_box
from rslm.estimators.completion.fitted_samples import FittedSamples
from rslm.estimators.completion.fold_in import Offsets, Subspace
from rslm.estimators.completion.ridges import Ridges, usual_curvature
from rslm.estimators.scaling import count_weights, scale_of
from rslm.linalg.low_rank import thin_svd
from rslm.location import Effects, Location
from rslm.losses import Loss
from rslm.measurements import Entries
from rslm.measurements.base import Measurement
from rslm.problem import Problem
from rslm.runtime.magnitudes import LEAST, without_tiny
from rslm.runtime.types import Floats, Indices64
from rslm.solvers.stopping import Progress
from rslm.structures import Box
from rslm.structures.box import ObservedBeyond

FURTHEST_APART = 1e12  # ratio of two weights: rows of smaller weight would be lost in the rounding errors of others


@dataclass(frozen=True)
class Layout:
    """How a data matrix becomes a problem, and how the solver's U and V become a model of it."""

    data: ObservedMatrix
    loss: Loss
    C: float
    weighting: float
    box: Box | None = None  #: bounds of the data matrix
    left: str = "smaller"  #: which side is d: the smaller one, or "features"
    ridges: Ridges | None = None  #: of effects; None for no location
    units: Floats | None = None  #: by which the features are divided before solving

    @cached_property
    def features_first(self) -> bool:
        return self.left == "features" or self.data.shape[1] <= self.data.shape[0]

    at_hand: ClassVar[bool] = True  #: whether the entries are in this process

    @cached_property
    def searched(self) -> Layout:
        """The layout of entries in this process by which settings are found."""
        return self

    @cached_property
    def more(self) -> float:
        """The best C relative to that of `searched`."""
        return 1.0

    @cached_property
    def largest(self) -> float:
        """The largest absolute value of an entry."""
        return max(float(self.data.values.max()), -float(self.data.values.min()))  # without a copy

    @cached_property
    def one_class(self) -> bool:
        """Whether all entries are of the same class, for a loss of two classes."""
        return bool((self.data.values > 0).all() or (self.data.values <= 0).all())

    def beyond(self, box: Box) -> ObservedBeyond | None:
        """Observed values that are beyond bounds."""
        return beyond(box, self.data)

    def seen(self) -> FittedSamples:
        return FittedSamples.of(self.data)

    @cached_property
    def scale(self) -> float:
        """Scale applied before solving (square loss only)."""
        largest = self.largest if self.units is None else float(np.abs(self._in_units()).max())
        return scale_of(largest, self.box, self.loss)

    def _in_units(self) -> Floats:
        """The values divided by the units of their features."""
        assert self.units is not None
        return np.asarray(self.data.values / self.units[self.data.index])

    def _weights(self, counts: Indices64) -> Floats | None:
        if self.weighting == 0:
            return None
        with np.errstate(over="ignore"):
            weights = count_weights(counts, float(counts.mean()), self.weighting)
            together = weights.max() <= FURTHEST_APART * weights.min() < math.inf  # False if one is NaN
        if not together:
            raise ValueError(
                f"weighting={self.weighting} turns entry counts of {counts.min()} to {counts.max()} into weights that "
                f"differ by more than a factor of {FURTHEST_APART:g}; use a smaller one, such as 0.5"
            )
        return weights

    @cached_property
    def _p(self) -> Floats | None:
        return self._weights(self.data.col_counts() if self.features_first else self.data.row_counts())

    @cached_property
    def _q(self) -> Floats | None:
        return self._weights(self.data.row_counts() if self.features_first else self.data.col_counts())

    def start(self, basis: Floats) -> Floats:
        """U for the subspace of the features of a model, for a layout with the features on the left."""
        return basis if self._p is None else basis * np.sqrt(self._p)[:, None]

    def _scaled(self) -> ObservedMatrix:
        """The data divided by the scale; values that are tiny relative to the bounds become zero."""
        if self.units is not None:
            return self.data.with_values(self._in_units() / self.scale)
        away = 0.0 if self.box is None else float(self.box.nearest_to_zero().max())
        if self.scale == 1.0 and (self.largest >= LEAST or away < LEAST):
            return self.data
        with np.errstate(under="ignore"):
            return self.data.with_values(without_tiny(self.data.values.astype(np.float64) / self.scale))

    def problem(self) -> Problem:
        parts = self._measurement(), self._structure(), self.C, self._p, self._q
        return Problem(self.loss, *parts, location=self.location)

    @cached_property
    def location(self) -> Location | None:
        """The location in the orientation and the units of the problem."""
        if self.ridges is None:
            return None
        return self.ridges.location(self.C, self.curvature, self.features_first)

    @cached_property
    def curvature(self) -> float:
        """The curvature of the loss at a typical error."""
        return usual_curvature(self.loss, standardised(self.data, self.units, self.loss))

    def _measurement(self) -> Measurement:
        data = self._scaled()
        return Entries.of_transposed(data) if self.features_first else Entries(data)

    def _structure(self) -> Box | None:
        box = solved_box(self.box, self.scale)
        return box.transposed() if box is not None and self.features_first else box

    @cached_property
    def alike(self) -> tuple[bool, bool]:
        """Whether all samples have the same bounds, and whether all features have: then an average one keeps them."""
        return (True, True) if self.box is None else (self.box.shape[0] == 1, self.box.shape[1] == 1)

    def model(self, U: Floats, V: Floats, rounding: float, effects: Effects | None = None) -> dict[str, Any]:
        """The attributes that an estimator predicts with, from a point of the solver and the rounding of the loss."""
        V = V * self.scale
        rows, cols = self.factors_of(U, V)
        row_counts, col_counts = self.data.row_counts(), self.data.col_counts()
        basis = self._basis(U, V)
        if effects is None:  # else rows and columns without an entry have the location alone
            rows = average_where_empty(rows, row_counts) if self.alike[0] else rows
            if self.alike[1]:
                cols, basis = average_where_empty(cols, col_counts), average_where_empty(basis, col_counts)
        located = self._located(effects)
        offsets = None
        if self.location is not None:
            ridge = self.location.columns if self.features_first else self.location.rows
            offsets = Offsets(located.mean, located.columns, ridge)
        subspace = Subspace(basis, self.C, self.weighting, float(row_counts.mean()), self.box, offsets, self.units)
        factors = self._factors(rows, cols, located)
        return self._described(rounding) | factors | {"_subspace": subspace, "_box": self.box, "_ridges": self.ridges}

    def factors_of(self, U: Floats, V: Floats) -> tuple[Floats, Floats]:
        """The factors of the samples and of the features, from a point of the solver."""
        left = self._left(U)
        return (V, left) if self.features_first else (left, V)

    def _factors(self, rows: Floats, cols: Floats, located: Effects) -> dict[str, Any]:
        """Factors and effects in the units of the data.

        Where features have units of their own, they have no common mean, and what a sample adds to all of them is one
        more factor.
        """
        if self.units is None:
            effects = {"intercept_": located.mean, "row_effects_": located.rows, "col_effects_": located.columns}
            return {"row_factors_": rows, "col_factors_": cols} | effects
        cols = cols * self.units[:, None]
        if self.ridges is not None and self.ridges.rows is not None:
            rows, cols = np.column_stack([rows, located.rows]), np.column_stack([cols, self.units])
        columns = (located.columns + located.mean) * self.units
        effects = {"intercept_": 0.0, "row_effects_": np.zeros(len(rows)), "col_effects_": columns}
        return {"row_factors_": rows, "col_factors_": cols} | effects

    def _located(self, effects: Effects | None) -> Effects:
        """The effects in the orientation of the data, divided by the units of the features only."""
        if effects is None:
            return Effects.none(self.data.shape)
        found = effects.scaled(self.scale)
        return Effects(found.mean, found.columns, found.rows, found.coefficients) if self.features_first else found

    def _described(self, rounding: float) -> dict[str, Any]:
        """The attributes that do not depend on U and V."""
        return {
            "n_features_in_": self.data.shape[1],
            "_rows": Labels("row", self.data.shape[0], self.data.row_ids),
            "_cols": Labels("column", self.data.shape[1], self.data.col_ids),
            "_seen": self.seen(),
            "_counts": np.asarray(self.data.col_counts()),
            "_rounding": rounding,
            "_fitted_loss": self.loss,
            "classes_": self._classes(),
            "_draws": None,  # those of an earlier fit are of other data
        }

    def at(self, progress: Progress) -> dict[str, Any]:
        """The model at the current point of a solver."""
        return self.model(progress.U, progress.V, finite_amount(progress.relaxations, "loss"), progress.effects)

    def _classes(self) -> Floats | None:
        if not self.loss.binary:
            return None
        return np.array([-1.0 if self._has(-1.0) else 0.0, 1.0])

    def _has(self, value: float) -> bool:
        return bool((self.data.values == value).any())

    def _left(self, U: Floats) -> Floats:
        return U if self._p is None else U / np.sqrt(self._p)[:, None]

    def _basis(self, U: Floats, V: Floats) -> Floats:
        """The rows f_j of the features' subspace."""
        if self.features_first:
            return self._left(U)
        # W̃ = U Ṽᵀ = P Σ Qᵀ: the transposed problem has U = Q √Σ / ‖√Σ‖.
        root = np.ones((len(V), 1)) if self._q is None else np.sqrt(self._q)[:, None]
        right = V * root
        Q, s, _ = thin_svd(right / (float(np.abs(right).max()) or 1.0), U)  # squares of V may overflow
        total = s.sum()
        return np.asarray(Q * np.sqrt(s / total if total > 0 else s) / root)


def average_where_empty(factors: Floats, counts: Indices64) -> Floats:
    """Factors with the average one for rows without an observed entry, which are then predicted like an average row."""
    empty = counts == 0
    if empty.any():
        factors = factors.copy()
        factors[empty] = factors[~empty].mean(axis=0)
    return factors
