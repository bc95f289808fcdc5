"""From the user's samples × features, with features of both sides, to the solver's d × T and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rslm.data import ObservedMatrix
from rslm.estimators.completion.layout import Layout, average_where_empty
from rslm.estimators.completion.side_features import Encoding
from rslm.estimators.scaling import count_weights
from rslm.inner.features.coupled import Coupled, CoupledSolution
from rslm.kernels import Columns
from rslm.linalg.low_rank import thin_svd
from rslm.location import Effects, Location
from rslm.losses import Loss
from rslm.measurements import Bilinear, Side
from rslm.problem import Problem
from rslm.runtime.types import Floats


@dataclass(frozen=True)
class InductiveLayout(Layout):
    """How a data matrix with features of both sides becomes a problem, and the solver's U and V a model of it."""

    features: tuple[Any, Any] = (None, None)  #: of the rows and of the columns
    encodings: tuple[Encoding, ...] = ()  #: of both, for features of weight 1
    feature_weight: float = 1.0
    completion: bool = True  #: whether rows and columns have coefficients of their own
    mean: bool = False  #: whether a mean is added to all predictions, which is not penalised

    @cached_property
    def weighted_encodings(self) -> tuple[Encoding, ...]:
        return tuple(replace(e, factor=self.feature_weight * e.factor) for e in self.encodings)

    @cached_property
    def location(self) -> Location | None:
        """The mean, as a covariate that is 1: W has coefficients, to which it cannot be added."""
        return Location(mean=False, covariates=np.ones((len(self.data), 1))) if self.mean else None

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        """Of the rows and of the columns."""
        counts, made = (self.data.row_counts(), self.data.col_counts()), []
        for X, encoding, of, size in zip(self.features, self.weighted_encodings, counts, self.data.shape, strict=True):
            weights = self._weights(of)
            own = np.ones(size) if weights is None else 1.0 / np.sqrt(weights)
            made.append(Side(encoding.matrix(X, size), own if self.completion else None))
        return made[0], made[1]

    @cached_property
    def features_first(self) -> bool:
        rows, cols = self.sides
        return cols.width <= rows.width

    def problem(self) -> Problem:
        data = self._scaled()
        rows, cols = self.sides
        if self.features_first:  # the data are stored by rows, which are the columns of the problem
            columns = Columns(data.indptr, data.index, data.shape[1])
            entries = Bilinear.of_columns(columns, data.values, cols, rows, data.weights)
        else:
            entries = Bilinear(data, rows, cols)
        return Problem(self.loss, entries, C=self.C, location=self.location)

    def model(self, U: Floats, V: Floats, rounding: float, effects: Effects | None = None) -> dict[str, Any]:
        """The attributes that a fitted estimator predicts with."""
        if not self.features_first:
            # W = U Vᵀ = P Σ Qᵀ: the transposed problem has U = Q √Σ / ‖√Σ‖.
            Q, s, P = thin_svd(V, U)
            total = float(s.sum())
            U, V = Q * np.sqrt(s / total if total > 0 else s), P * (np.sqrt(s) * np.sqrt(total))
        rows, cols = self.sides
        V = V * self.scale
        row_factors, col_factors = rows.lift(V, 1), cols.lift(U, 1)
        if rows.X is None:
            row_factors = average_where_empty(row_factors, self.data.row_counts())
        if cols.X is None:
            col_factors = average_where_empty(col_factors, self.data.col_counts())
        counts = self.data.row_counts()
        mean = 0.0 if effects is None or self.location is None else self.scale * float(effects.coefficients[0])
        own = self.weighting if self.completion else None
        return self._described(rounding) | {
            "intercept_": mean,
            "row_factors_": row_factors,
            "col_factors_": col_factors,
            "row_effects_": np.zeros(len(row_factors)),
            "col_effects_": np.zeros(len(col_factors)),
            "_subspace": InductiveSubspace(col_factors, self.C, own, float(counts.mean()), mean),
            "_encodings": self.weighted_encodings,
            "_coefs": (V[: rows.features], U[: cols.features]),
            "_bases": np.zeros_like(row_factors) if rows.X is None else rows.X.times(V[: rows.features], 1),
        }


@dataclass(frozen=True)
class InductiveSubspace:
    """The columns' side of a fitted matrix: a sample is a base, predicted from its features, plus a part of its own."""

    features: Floats  #: (n_features, rank)
    C: float
    weighting: float | None  #: None if samples have no part of their own
    mean_count: float  #: mean number of entries of a fitted sample, to which `weighting` is relative
    mean: float = 0.0  #: of all predictions

    def fold_in(self, data: ObservedMatrix, bases: Floats, loss: Loss, threads: int) -> Floats:
        """The factors of all samples."""
        return bases if self.weighting is None else self._solve(data, bases, loss, threads).G

    def left_out(self, data: ObservedMatrix, bases: Floats, loss: Loss, threads: int) -> Floats:
        """Every observed entry predicted from the features and the other entries of its sample."""
        if self.weighting is None:
            return Columns(data.indptr, data.index, data.shape[1]).predict(self.features, bases, threads) + self.mean
        return self._solve(data, bases, loss, threads).left_out()

    def _solve(self, data: ObservedMatrix, bases: Floats, loss: Loss, threads: int) -> CoupledSolution:
        weights = count_weights(data.row_counts(), self.mean_count, self.weighting or 0.0)
        columns = Columns(data.indptr, data.index, data.shape[1])
        samples = Side(own=1.0 / np.sqrt(weights), base=bases)
        entries = Bilinear.of_columns(columns, data.values, Side.plain(data.shape[1]), samples, data.weights)
        with np.errstate(over="ignore", invalid="ignore"):  # a step that is too long may overflow
            solver = Coupled(Problem(loss, entries, C=self.C), threads)
            solver.offset = np.full(len(data), self.mean)
            return solver.solve(self.features)
