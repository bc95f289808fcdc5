"""A point of the outer solvers where there is a location: one array for U, row effects, mean and coefficients.

    [ U   b/τ_b ]    d rows
    [ 0   μ/τ   ]
    [ 0   β/τ_k ]    a row per covariate

The scales τ make steps of the location comparable with those of U, which has norm 1, whatever the units of the data.
They are the same in all stages of a continuation, whose points are passed on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rslm.location.location import Effects, Location
from rslm.runtime.types import Floats

SAMPLE = 100_000  # targets from which their spread is estimated


def spread_of(data: Any, loss: Any) -> float:
    """The spread of the targets; 1 for two classes."""
    if loss.binary:
        return 1.0
    some = np.asarray(data.sample(SAMPLE), dtype=np.float64)
    return (float(np.std(some)) if len(some) else 0.0) or float(np.abs(some).max(initial=0.0)) or 1.0


@dataclass(frozen=True)
class Packing:
    """How effects are laid out, and their scales."""

    shape: tuple[int, int]  #: (d, T)
    location: Location
    scales: Floats  #: of the rows of the last column: d row effects, the mean, the coefficients

    @classmethod
    def of(cls, problem: Any) -> Packing:
        location: Location = problem.location
        spread = location.spread
        assert spread is not None
        d, X = problem.shape[0], location.covariates
        sizes = np.zeros(0) if X is None else np.sqrt(np.mean(X * X, axis=0))
        of_covariates = spread / np.where(sizes > 0, sizes, 1.0)
        return cls(problem.shape, location, np.concatenate([np.full(d, spread * np.sqrt(d)), [spread], of_covariates]))

    @property
    def covariates(self) -> int:
        return len(self.scales) - self.shape[0] - 1

    def packed(self, U: Floats, effects: Effects | None = None) -> Floats:
        """The point of U and `effects`, or of no effects."""
        d, out = self.shape[0], np.zeros((len(self.scales), U.shape[1] + 1))
        out[:d, :-1] = U
        if effects is not None:
            out[:d, -1], out[d, -1] = effects.rows, effects.mean
            out[d + 1 :, -1] = effects.coefficients if len(effects.coefficients) else 0.0
            out[:, -1] /= self.scales
        return out

    def parts(self, point: Floats) -> tuple[Floats, Floats, float, Floats]:
        """U, row effects, mean and coefficients of a point or a direction."""
        d, last = self.shape[0], point[:, -1] * self.scales
        return np.ascontiguousarray(point[:d, :-1]), last[:d], float(last[d]), last[d + 1 :]

    def gradient_parts(self, gradient: Floats) -> tuple[Floats, Floats, float, Floats]:
        """The derivatives by U, row effects, mean and coefficients, from one by the point."""
        d, last = self.shape[0], gradient[:, -1] / self.scales
        return np.ascontiguousarray(gradient[:d, :-1]), last[:d], float(last[d]), last[d + 1 :]

    def derivative(self, U: Floats, rows: Floats, mean: float, coefficients: Floats) -> Floats:
        """The derivative by the point, from those by U, row effects, mean and coefficients."""
        out = np.zeros((len(self.scales), U.shape[1] + 1))
        out[: len(U), :-1] = U
        out[:, -1] = self.scales * np.concatenate([rows, [mean], coefficients])
        return out

    def with_U(self, point: Floats, U: Floats) -> Floats:
        """The point with another U."""
        out = point.copy()
        out[: len(U), :-1] = U
        return out
