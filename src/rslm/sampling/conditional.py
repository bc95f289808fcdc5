"""The distribution of the coefficients of all columns, given those of the rows, the noise and the prior.

It is normal and independent between columns: a column has the mean of a ridge regression of its entries on the
coordinates of the rows, and the inverse of the system of that regression, times the variance of the noise, as
covariance. In the axes of the prior its precision is a ridge; what the prior's mean explains is part of an offset.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rslm.kernels import Columns, Factors, Unfactored
from rslm.runtime.types import Floats
from rslm.sampling.coefficients import Coefficients
from rslm.sampling.prior import NormalPrior


@dataclass(frozen=True)
class Entries:
    """Entries of a matrix by columns."""

    pattern: Columns
    y: Floats
    weight: Floats | None  #: inverse variances of the entries, relative to that of the noise

    def by_rows(self) -> Entries:
        """The entries of the transposed matrix."""
        order = self.pattern.row_order
        weight = None if self.weight is None else np.ascontiguousarray(self.weight[order])
        return Entries(self.pattern.by_rows, np.ascontiguousarray(self.y[order]), weight)


@dataclass(frozen=True)
class Conditional:
    """Normal distributions of the coefficients of all columns."""

    entries: Entries
    prior: NormalPrior
    noise: float
    design: Floats  #: (rows, k + 1), in the axes of the prior; the coefficient of the last coordinate is 1
    ridge: Floats  #: (columns, k + 1)
    axes: Floats  #: (k, k)
    solution: Floats  #: (columns, k + 1)
    factors: Factors

    @classmethod
    def of(
        cls,
        entries: Entries,
        prior: NormalPrior,
        rows: Coefficients,
        noise: float,
        effects: bool,
        threads: int,
        used: Factors | None = None,
    ) -> Conditional:
        """Whether columns have `effects`, and factors that are no longer needed, have to be said."""
        X, offset = rows.design(effects)
        precisions, axes = prior.axes()
        k = len(precisions)
        design = np.column_stack([X @ axes, offset + X @ prior.mean])
        ridge = np.empty((entries.pattern.shape[1], k + 1))
        ridge[:, :k], ridge[:, k] = noise**2 * precisions, math.inf
        solution, factors = entries.pattern.regress(
            entries.y, design, ridge, threads, used, weight=entries.weight, pinned=True
        )
        return cls(entries, prior, noise, design, ridge, axes, solution, factors)

    def _table(self, coordinates: Floats) -> Floats:
        return np.asarray(self.prior.mean + coordinates[:, :-1] @ self.axes.T)

    def mean(self) -> Floats:
        """The means, (columns, k)."""
        return self._table(self.solution)

    def drawn(self, rng: np.random.Generator, threads: int) -> Floats:
        """Coefficients from their distributions, (columns, k)."""
        count, k = self.solution.shape[0], len(self.axes)
        errors = np.zeros((count, k + 1))
        errors[:, :k] = rng.standard_normal((count, k))
        return self._table(self.solution + self.noise * self.factors.back_substitute(errors, threads))

    def left_out(self, threads: int) -> Floats:
        """Every entry predicted by the mean that the other entries of its column would give."""
        pattern, y, weight = self.entries.pattern, self.entries.y, self.entries.weight
        X, ridge = (np.ascontiguousarray(a[:, :-1]) for a in (self.design, self.ridge))
        influence = Unfactored(pattern, X, weight, ridge).leverages(threads)
        influence = influence if weight is None else influence * weight
        error = y - pattern.predict(self.design, self.solution, threads)
        return np.asarray(y - error / np.maximum(1.0 - influence, np.finfo(float).eps))
