"""Forecasts of a fitted series: how its channels evolve, found when it is first needed.

The oscillations of the signal are offered to the dynamics, which weigh them against levels, trends and seasons that
evolve. Signals that clearly grow, and series without noise, are continued as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from rslm.data import parts
from rslm.estimators.series.dynamics import Dynamics, fit_dynamics
from rslm.estimators.series.exponentials import growth_of_errors
from rslm.estimators.series.learned import Learned
from rslm.evaluate.intervals import check_coverage
from rslm.runtime.types import Floats
from rslm.storage.container import Arrays

MOST_MISSING = 200  # samples, from which on earlier ones are left out: each is an unknown of the dynamics
STILL = 1e-9  # noise that is smaller, relative to the largest sample, is rounding
CLEAR = 0.02  # growth is continued if noise is smaller than this: otherwise a trend that evolves is safer


class Forecaster(Protocol):
    """Of one channel."""

    @property
    def grows(self) -> bool:
        """Whether swings that grow are continued as such."""
        ...

    def forecast(self, steps: int) -> Floats: ...

    def interval(self, steps: int, coverage: float) -> tuple[Floats, Floats]: ...

    def to_arrays(self) -> Arrays: ...


@dataclass(frozen=True)
class Scaled:
    """Dynamics of a series that was divided by its size."""

    dynamics: Dynamics
    size: float
    grows: ClassVar[bool] = False

    def forecast(self, steps: int) -> Floats:
        return self.size * self.dynamics.forecast(steps) if steps else np.zeros(0)

    def interval(self, steps: int, coverage: float) -> tuple[Floats, Floats]:
        check_coverage(coverage)
        if not steps:
            return np.zeros(0), np.zeros(0)
        lower, upper = self.dynamics.interval(steps, coverage)
        return self.size * lower, self.size * upper

    def to_arrays(self) -> Arrays:
        return self.dynamics.to_arrays() | {"dynamics_size": np.array([self.size])}


@dataclass(frozen=True)
class Continued:
    """A signal that goes on, in autoregressive noise of which the last samples are known."""

    learned: Learned
    channel: int
    coefficients: Floats  #: of the noise
    last: Floats  #: as many samples of the noise, the latest last
    grows: ClassVar[bool] = True

    def forecast(self, steps: int) -> Floats:
        noise = np.append(self.last, np.zeros(steps))
        p = len(self.last)
        for k in range(p, p + steps):
            noise[k] = self.coefficients @ noise[k - p : k][::-1] if p else 0.0
        return np.asarray(self.learned.ahead(steps)[self.channel] + noise[p:])

    def interval(self, steps: int, coverage: float) -> tuple[Floats, Floats]:
        check_coverage(coverage)
        seen, c = self.learned.seen, self.channel
        size, order = float(self.learned.sizes[c]), self.learned.modes.order
        freedom = max(int(seen[c].sum()) - 2 * order, 1)
        poles = self.learned.modes.poles()
        growth = growth_of_errors(poles, seen[c : c + 1], steps)[:, 0]
        width = float(student.ppf(0.5 + 0.5 * coverage, freedom)) * size * growth
        ahead = self.forecast(steps)
        return ahead - width, ahead + width

    def to_arrays(self) -> Arrays:
        return {"continued_coefficients": self.coefficients, "continued_last": self.last}


def forecasters(learned: Learned, residuals: Floats, coefficients: list[Floats]) -> list[Forecaster]:
    """One for every channel, from the residuals (channels, n), NaN where samples are missing or spikes."""
    return [_forecaster(learned, c, residuals[c], coefficients[c]) for c in range(len(residuals))]


def _forecaster(learned: Learned, channel: int, left: Floats, phi: Floats) -> Forecaster:
    y = left + learned.signal[channel]
    size = float(np.nanmax(np.abs(y))) or 1.0
    growing = float(learned.modes.growth().max(initial=-math.inf)) > 0.0
    if not learned.sizes[channel] > (CLEAR if growing else STILL) * size:
        return Continued(learned, channel, phi, _last(left, phi))
    missing = np.flatnonzero(np.isnan(y))
    latest = y[int(missing[-MOST_MISSING - 1]) + 1 :] if len(missing) > MOST_MISSING else y
    poles = learned.modes.poles()
    waves = poles[poles.imag > 0]
    return Scaled(fit_dynamics(latest / size, [waves] if len(waves) else []), size)


def _last(left: Floats, phi: Floats) -> Floats:
    """The last samples of the noise; missing ones as the earlier ones predict them."""
    p = len(phi)
    noise = np.concatenate([np.zeros(p), left[-max(10 * p, 1) :]])
    for k in range(p, len(noise)):
        if np.isnan(noise[k]):
            noise[k] = phi @ noise[k - p : k][::-1]
    return noise[len(noise) - p :] if p else np.zeros(0)


def to_arrays(found: list[Forecaster]) -> Arrays:
    return {f"{name}_{c}": values for c, one in enumerate(found) for name, values in one.to_arrays().items()}


def from_arrays(arrays: Arrays, learned: Learned) -> list[Forecaster]:
    """What a file holds."""
    found: list[Forecaster] = []
    for c in range(len(learned.seen)):
        own: dict[str, NDArray[Any]] = {
            name.removesuffix(f"_{c}"): values for name, values in arrays.items() if name.endswith(f"_{c}")
        }
        if "dynamics_size" in own:
            size = float(parts.floats(own, "dynamics_size", 1)[0])
            found.append(Scaled(Dynamics.from_arrays(own), size))
        else:
            phi = parts.floats(own, "continued_coefficients", None)
            found.append(Continued(learned, c, phi, parts.floats(own, "continued_last", len(phi))))
    return found
