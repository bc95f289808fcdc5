"""Unit effects, period effects and coefficients of covariates by least squares, for a stack of small panels at once.

A stack has the shape (panels, units, periods). Each panel has its own set of observed entries, or all share one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rslm.runtime.types import Floats

Flags = NDArray[np.bool_]

NULL = 1e-10  # eigenvalues this small relative to the largest one are 0: of units and periods that nothing connects


class Located(NamedTuple):
    """The effects of each panel of a stack."""

    units: Floats  #: (panels, units)
    periods: Floats  #: (panels, periods)
    coefficients: Floats  #: (panels, k), of the covariates

    def taken(self, which: Any) -> Located:
        return Located(*(part[which] for part in self))


class TwoWay:
    """Least squares on unit effects, period effects and covariates over the observed entries of each panel.

    What it leaves of the outcomes sums to 0 over every unit and every period and is orthogonal to the covariates, so it
    satisfies the constraints of the dual problem exactly.
    """

    def __init__(self, observed: Flags, covariates: Floats | None = None) -> None:
        self._observed, self._covariates = observed, covariates
        self.seen: Floats = observed.astype(np.float64)  # (panels or 1, units, periods)
        self._counts = np.maximum(self.seen.sum(axis=2), 1.0)
        # The units are eliminated; what is left is a system of the size of the periods.
        system = -np.matmul((self.seen / self._counts[:, :, None]).transpose(0, 2, 1), self.seen)
        at = np.arange(system.shape[1])
        system[:, at, at] += self.seen.sum(axis=1)
        self._inverse = np.linalg.pinv(system, rcond=NULL, hermitian=True)
        self._left: Floats | None = None
        self._solve: Floats | None = None
        if covariates is not None:
            self._left, self._solve = self._of_covariates()

    def _of_covariates(self) -> tuple[Floats, Floats]:
        """What effects leave of the covariates, (panels, k, entries), and the inverse of its Gram matrix."""
        assert self._covariates is not None
        left = np.stack([self._without_effects(x * self.seen) for x in self._covariates], axis=1)
        flat = left.reshape(*left.shape[:2], -1)
        return flat, np.linalg.pinv(np.matmul(flat, flat.transpose(0, 2, 1)), rcond=NULL, hermitian=True)

    def taken(self, which: Any) -> TwoWay:
        """The same for some panels of the stack; unchanged if all share their observed entries."""
        if len(self.seen) == 1:
            return self
        other = object.__new__(TwoWay)
        other._covariates = self._covariates
        for name in ("_observed", "seen", "_counts", "_inverse", "_left", "_solve"):
            value = getattr(self, name)
            setattr(other, name, None if value is None else value[which])
        return other

    def _effects(self, R: Floats) -> tuple[Floats, Floats]:
        means = R.sum(axis=2) / self._counts
        right = R.sum(axis=1) - np.matmul(means[:, None, :], self.seen)[:, 0]
        periods = np.matmul(self._inverse, right[:, :, None])[:, :, 0]
        return means - np.matmul(self.seen, periods[:, :, None])[:, :, 0] / self._counts, periods

    def _without_effects(self, R: Floats) -> Floats:
        units, periods = self._effects(R)
        return np.asarray((R - units[:, :, None] - periods[:, None, :]) * self.seen)

    def _coefficients(self, rest: Floats) -> Floats:
        if self._left is None or self._solve is None:
            return np.zeros((len(rest), 0))
        flat = rest.reshape(len(rest), -1, 1)
        return np.asarray(np.matmul(self._solve, np.matmul(self._left, flat))[:, :, 0])

    def residual(self, R: Floats) -> Floats:
        """What is left of R, which is 0 at entries that are not observed; so is the answer."""
        rest = self._without_effects(R)
        if self._left is None:
            return rest
        explained = np.matmul(self._coefficients(rest)[:, None, :], self._left)
        return np.asarray(rest - explained.reshape(rest.shape))

    def located(self, R: Floats) -> Located:
        """The effects that explain R best."""
        coefficients = self._coefficients(self._without_effects(R)) if self._left is not None else np.zeros((len(R), 0))
        if self._covariates is not None:
            R = R - np.tensordot(coefficients, self._covariates, axes=1) * self.seen
        return Located(*self._effects(R), coefficients)

    def predicted(self, located: Located) -> Floats:
        """The sum of effects and covariates at all entries, observed or not."""
        found = located.units[:, :, None] + located.periods[:, None, :]
        if self._covariates is None:
            return np.asarray(found)
        return np.asarray(found + np.tensordot(located.coefficients, self._covariates, axes=1))
