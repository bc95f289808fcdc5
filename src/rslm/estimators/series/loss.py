"""The loss of a series: which losses are allowed, a loss in other units, and its averages over normal noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import norm as normal

from rslm.estimators.choices import as_loss
from rslm.estimators.defaults import needs_width
from rslm.losses import BoxDual, EpsilonInsensitive, Huber, Interval, Loss
from rslm.runtime.types import Floats

WIDTH = 1.345  # δ in standard deviations of the noise: with normal noise, the error is 2.5 % above the least possible
FREE = 0.3  # ε likewise: samples with smaller errors have no weight in `robust`, so there must not be many
PROBES = 16  # samples at which a loss is tried out
EQUAL = 1e-6  # relative change of the loss that is allowed when the same number is added to target and prediction
ERRORS = 4000  # quantiles of normal noise over which averages are taken
NORMAL_ERRORS: Floats = np.asarray(normal.ppf((np.arange(ERRORS) + 0.5) / ERRORS))


def checked_loss(given: Any, Y: Floats) -> Loss | str:
    """The loss, in the units of Y; its name if it has a width that is not known yet."""
    loss = as_loss(given)
    if loss.binary:
        raise ValueError(
            f"loss={given!r} is for two classes, but a series has real numbers; use 'square', 'huber', 'absolute', or "
            "a Loss for real numbers"
        )
    if needs_width(given):
        return str(given)
    if not (loss.quadratic or loss.interval is not None):
        _check_differences(loss, Y)
    return loss


def _check_differences(loss: Loss, Y: Floats) -> None:
    """Raise an error unless a user's own loss depends on y − w alone; noise, order and C are found from that."""
    y = Y[~np.isnan(Y)][:PROBES]
    move = float(np.abs(y).max()) or 1.0
    with np.errstate(all="ignore"):
        here, there = (loss.value(loss.targets(y + a), y * 0.5 + a) for a in (0.0, move))
    if not np.allclose(here, there, rtol=EQUAL, atol=EQUAL * float(np.abs(here).max())):
        raise ValueError(
            f"{loss!r} is not a loss of the difference y − w, from which HankelModel finds noise, order and C; use "
            "rslm.solve(Problem(loss, Samples(y), Hankel(window, windows), C=…), rank) instead"
        )


def with_width(loss: Loss | str, noise: float) -> Loss:
    """The loss; one that is given by its name has a width for noise of this standard deviation."""
    if not isinstance(loss, str):
        return loss
    return Huber(WIDTH * noise) if loss == "huber" else EpsilonInsensitive(FREE * noise)


@dataclass(frozen=True)
class Units:
    """The units in which a series is solved: samples are divided by `scale`, and the loss is w ℓ(scale ·) / scale².

    C of the solved problem is C / w. With the weight w of `for_noise`, the same C suits all losses.
    """

    scale: float
    weight: float = 1.0

    @classmethod
    def for_noise(cls, loss: Loss, scale: float, noise: float) -> Units:
        """Units in which normal errors with standard deviation `noise` have the mean curvature 2 of the square loss."""
        return cls(scale, 2.0 / mean_curvature(cls(scale).of(loss), noise))

    def of(self, loss: Loss) -> Loss:
        if loss.quadratic:
            return loss
        return UnitsBox(loss, self) if loss.interval is not None else UnitsLoss(loss, self)


@dataclass(frozen=True)
class UnitsBox(BoxDual):
    """A loss with an interval of dual variables, in other units."""

    loss: Loss
    units: Units

    @cached_property
    def interval(self) -> Interval:
        interval, s, w = self.loss.interval, self.units.scale, self.units.weight
        assert interval is not None
        lower, upper = interval.lower / s * w, interval.upper / s * w
        return replace(interval, lower=lower, upper=upper, epsilon=interval.epsilon / s, rounding=interval.rounding / w)

    def targets(self, y: Floats) -> Floats:
        return self.loss.targets(y * self.units.scale) / self.units.scale


@dataclass(frozen=True)
class UnitsLoss(Loss):
    """Any loss, in other units."""

    loss: Loss
    units: Units

    def value(self, y: Floats, w: Floats) -> Floats:
        s = self.units.scale
        return self.loss.value(y * s, w * s) / s / s * self.units.weight

    def gradient(self, y: Floats, w: Floats) -> Floats:
        s = self.units.scale
        return self.loss.gradient(y * s, w * s) / s * self.units.weight

    def hessian(self, y: Floats, w: Floats) -> Floats:
        s = self.units.scale
        return self.loss.hessian(y * s, w * s) * self.units.weight

    def conjugate(self, y: Floats, s: Floats) -> Floats:
        scale, weight = self.units.scale, self.units.weight
        return self.loss.conjugate(y * scale, s / weight * scale) / scale / scale * weight

    def targets(self, y: Floats) -> Floats:
        return self.loss.targets(y * self.units.scale) / self.units.scale

    def guess(self, y: Floats, usual: float) -> Floats:
        return self.loss.guess(y * self.units.scale, usual * self.units.scale) / self.units.scale


def mean_curvature(loss: Loss, noise: float) -> float:
    """E ℓ'' for normal errors e of standard deviation σ = `noise`, including kinks: E ψ(e) e / σ², with ψ = −ℓ'."""
    if loss.quadratic:
        return 2.0
    found = float(np.mean(_slopes(loss, noise) * NORMAL_ERRORS))
    return found if np.isfinite(found) and found > 0 else 2.0


def _slopes(loss: Loss, noise: float) -> Floats:
    """ψ(e) / σ for normal errors; divided by σ now, because squares of extreme numbers overflow or underflow."""
    e = noise * NORMAL_ERRORS
    with np.errstate(all="ignore"):
        return -loss.gradient(e, np.zeros_like(e)) / noise
