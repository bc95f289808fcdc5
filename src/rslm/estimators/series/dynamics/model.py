"""The dynamics of a series: its structures and their weights, forecasts and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.stats import t as student

from rslm.data import parts
from rslm.estimators.series.dynamics.estimate import BOUND, Estimate, at_unknowns
from rslm.estimators.series.dynamics.innovations import Group, Likelihood
from rslm.estimators.series.dynamics.prediction import predict
from rslm.estimators.series.dynamics.search import search
from rslm.estimators.series.dynamics.volatility import recent_variance
from rslm.estimators.series.exponentials import Complexes
from rslm.evaluate.intervals import check_coverage
from rslm.runtime.types import Floats
from rslm.storage.container import Arrays

LONGEST = 2000  # samples, the last ones: the ones before say little about how a series evolves now


@dataclass(frozen=True)
class Dynamics:
    """Structures that explain a series, the most likely one first. See `innovations` for what they are."""

    y: Floats  #: the last samples of the series, NaN if missing
    estimates: tuple[Estimate, ...]
    weights: Floats  #: they sum to 1

    @property
    def poles(self) -> Complexes:
        """Of the most likely structure, level and trend included, conjugates once."""
        return np.concatenate([group.poles for group in self.estimates[0].likelihood.groups])

    @property
    def noise(self) -> float:
        """Standard deviation of one-step errors."""
        return float(np.sqrt(self.weights @ [one.variance for one in self.estimates]))

    @cached_property
    def volatility(self) -> Floats:
        """The variance of the next error relative to the mean one, for every structure."""
        seen = ~np.isnan(self.y)
        return np.array([recent_variance(one.found.errors[seen][one.likelihood.states :]) for one in self.estimates])

    def forecast(self, steps: int) -> Floats:
        return self._moments(steps)[0]

    def deviations(self, steps: int) -> Floats:
        """Standard deviations of the errors of forecasts."""
        return self._moments(steps)[1]

    def interval(self, steps: int, coverage: float) -> tuple[Floats, Floats]:
        check_coverage(coverage)
        ahead, deviations = self._moments(steps)
        freedom = max(self.estimates[0].likelihood.observed - self.estimates[0].parameters + 1, 1)
        width = float(student.ppf(0.5 + 0.5 * coverage, freedom)) * deviations
        return ahead - width, ahead + width

    def _moments(self, steps: int) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the mixture of all structures."""
        found = [predict(one, steps) for one in self.estimates]
        ahead = np.array([one.ahead for one in found])
        variance = self.volatility[:, None] * np.array([one.variance for one in found])
        mean = self.weights @ ahead
        return np.asarray(mean), np.sqrt(self.weights @ (variance + (ahead - mean) ** 2))

    def to_arrays(self) -> Arrays:
        groups = [(k, group) for k, one in enumerate(self.estimates) for group in one.likelihood.groups]
        poles = [group.poles for _, group in groups]
        unknowns = [one.unknowns for one in self.estimates]
        return {
            "dynamics_y": self.y,
            "dynamics_weights": self.weights,
            "dynamics_structure": np.array([k for k, _ in groups]),  # to which each group belongs
            "dynamics_evolves": np.array([group.evolves for _, group in groups]),
            "dynamics_price": np.array([group.price for _, group in groups]),
            "dynamics_group": np.repeat(np.arange(len(groups)), [len(z) for z in poles]),  # to which each pole belongs
            "dynamics_real": np.concatenate(poles).real,
            "dynamics_imag": np.concatenate(poles).imag,
            "dynamics_of": np.repeat(np.arange(len(unknowns)), [len(u) for u in unknowns]),
            "dynamics_unknowns": np.concatenate(unknowns),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        y = parts.floats(arrays, "dynamics_y", None, finite=False)
        weights = parts.floats(arrays, "dynamics_weights", None)
        evolves = parts.flags(arrays, "dynamics_evolves", None)
        price = parts.floats(arrays, "dynamics_price", len(evolves))
        structure = parts.positions(arrays, "dynamics_structure", len(evolves), len(weights))
        real = parts.floats(arrays, "dynamics_real", None)
        poles = real + 1j * parts.floats(arrays, "dynamics_imag", len(real))
        group = parts.positions(arrays, "dynamics_group", len(real), len(evolves))
        unknowns = parts.floats(arrays, "dynamics_unknowns", None)
        of = parts.positions(arrays, "dynamics_of", len(unknowns), len(weights))
        if np.isinf(y).any() or (np.abs(poles) > 1 + 1e-9).any() or (np.abs(unknowns) > BOUND).any():
            raise ValueError("dynamics_unknowns")
        groups = [Group(poles[group == k], bool(evolves[k]), float(price[k])) for k in range(len(evolves))]
        estimates = []
        for k in range(len(weights)):
            own = tuple(one for one, s in zip(groups, structure, strict=True) if s == k)
            u = unknowns[of == k]
            if not own or len(u) < sum(one.evolves for one in own):
                raise ValueError("dynamics_structure")
            estimates.append(at_unknowns(Likelihood(y, own), u))
        return cls(y, tuple(estimates), weights)


def fit_dynamics(y: Floats, candidates: Sequence[Complexes] = ()) -> Dynamics:
    """Find how a series evolves.

    Level, trend and seasons are found from the last 2,000 samples of y, in which NaN is missing. Candidates are sets of
    poles that may explain the rest, such as damped oscillations, and each is tried. Poles outside of the unit circle
    are moved to it.
    """
    recent = np.asarray(y, dtype=float)[-LONGEST:]
    estimates, weights = search(recent, candidates)
    return Dynamics(recent, tuple(estimates), weights)
