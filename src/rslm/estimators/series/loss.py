"""The loss of a series: which ones are taken, in other units, and what normal noise of a given size does to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import norm as normal

from rslm.estimators.choices import as_loss
from rslm.losses import BoxDual, Huber, Interval, Loss
from rslm.runtime.types import Floats

HUBER = "huber"  # whose δ follows from the noise
WIDTH = 1.345  # δ in standard deviations of the noise: with normal noise, the error is 2.5 % above the least possible
SOME = 16  # samples that a loss is tried out with
EQUAL = 1e-6  # part of the loss by which it may change when target and prediction are moved alike
ERRORS = 4000  # of normal noise that averages are taken over
NORMAL_ERRORS: Floats = np.asarray(normal.ppf((np.arange(ERRORS) + 0.5) / ERRORS))


def checked_loss(given: Any, Y: Floats) -> Loss | None:
    """The loss, in the units of Y; None where it is Huber's with a δ that is not known yet."""
    loss = as_loss(given)
    if loss.binary:
        raise ValueError(
            f"loss={given!r} is for two classes, but a series has real numbers; use 'square', 'huber', 'absolute', or "
            "a Loss of real numbers"
        )
    if given == HUBER:
        return None
    if not (loss.quadratic or loss.interval is not None):
        _check_differences(loss, Y)
    return loss


def _check_differences(loss: Loss, Y: Floats) -> None:
    """A loss of the user's own: noise, order and C are found from differences y − w."""
    y = Y[~np.isnan(Y)][:SOME]
    move = float(np.abs(y).max()) or 1.0
    with np.errstate(all="ignore"):
        here, there = (loss.value(loss.targets(y + a), y * 0.5 + a) for a in (0.0, move))
    if not np.allclose(here, there, rtol=EQUAL, atol=EQUAL * float(np.abs(here).max())):
        raise ValueError(
            f"{loss!r} is not a loss of the difference y − w, from which HankelModel finds noise, order and C; solve "
            "it with rslm.solve(Problem(loss, Samples(y), Hankel(window, windows), C=…), rank)"
        )


def of_width(noise: float) -> Huber:
    """Huber's loss for noise of this standard deviation."""
    return Huber(WIDTH * noise)


@dataclass(frozen=True)
class Units:
    """How a series and its loss are solved: samples divided by `scale`, and with them the loss w ℓ(scale ·) / scale².

    C of the solved problem is C / w. With the weight w of `for_noise`, the same C suits all losses.
    """

    scale: float
    weight: float = 1.0

    @classmethod
    def for_noise(cls, loss: Loss, scale: float, noise: float) -> Units:
        """Normal errors, of standard deviation `noise` once they are divided, meet the curvature 2 of the square."""
        return cls(scale, 2.0 / mean_curvature(cls(scale).of(loss), noise))

    def of(self, loss: Loss) -> Loss:
        if loss.quadratic:
            return loss
        return UnitsBox(loss, self) if loss.interval is not None else UnitsLoss(loss, self)


@dataclass(frozen=True)
class UnitsBox(BoxDual):
    """A loss with a box in the dual, in other units."""

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
    """E ℓ'' over normal errors e of standard deviation σ = `noise`, kinks included: E ψ(e) e / σ², with ψ = −ℓ'."""
    if loss.quadratic:
        return 2.0
    found = float(np.mean(_slopes(loss, noise) * NORMAL_ERRORS))
    return found if np.isfinite(found) and found > 0 else 2.0


def variance_of_estimates(loss: Any, noise: float) -> float:
    """Of parameters that are fitted by this loss, relative to the square loss, for normal noise; 1 if not known."""
    if not isinstance(loss, Loss) or loss.quadratic or not noise > 0:
        return 1.0
    found = float(np.mean((_slopes(loss, noise) / mean_curvature(loss, noise)) ** 2))
    return found if np.isfinite(found) and found > 0 else 1.0


def _slopes(loss: Loss, noise: float) -> Floats:
    """ψ(e) / σ of normal errors: divided by σ first, since squares of extreme numbers are none."""
    e = noise * NORMAL_ERRORS
    with np.errstate(all="ignore"):
        return -loss.gradient(e, np.zeros_like(e)) / noise
