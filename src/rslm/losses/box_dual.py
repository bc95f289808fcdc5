"""Losses whose dual variable lies in an interval: piecewise linear losses, and the same with rounded kinks.

With e = y − w,

    ℓ(y, w) = max over lower ≤ s ≤ upper of   s e − ε|s| − ½ δ s²

and s, the maximiser, is −∂ℓ/∂w. The interval, ε and δ define a loss of this family:

    absolute             [−1, 1]        ε = 0   δ = 0
    ε-insensitive        [−1, 1]        ε       δ = 0
    quantile τ           [τ − 1, τ]     ε = 0   δ = 0
    Huber, of width d    [−d, d]        ε = 0   δ = 1
    hinge                [0, 1] y       ε = 0   δ = 0
    squared hinge        [0, ∞) y       ε = 0   δ = ½

With δ = 0 the loss has kinks; a small δ rounds them, and changes the loss by at most ½ δ max(s²).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rslm.losses.base import Loss
from rslm.losses.checks import checked_number
from rslm.losses.interval import Interval
from rslm.runtime.types import Floats

CLIP = 3.0  # first guesses are clipped to this many medians of |y|: gross errors must not decide where to start


class BoxDual(Loss):
    """A loss ℓ(y, w) = max_s s (y − w) − ε|s| − ½ δ s² with s in an interval: piecewise linear or quadratic."""

    @property
    @abstractmethod
    def interval(self) -> Interval:
        """The interval of s, ε and δ, which define the loss."""

    def slope(self, y: Floats, w: Floats) -> Floats:
        """s = −∂ℓ/∂w; 0 at a kink, where any value between those on either side is valid."""
        interval, e = self.interval, y - w
        excess = np.sign(e) * np.maximum(np.abs(e) - interval.epsilon, 0.0) if interval.epsilon > 0 else e
        lower, upper = interval.bounds(y)
        if interval.rounding > 0:
            return np.asarray(np.clip(excess / interval.rounding, lower, upper))
        return np.where(excess > 0, upper, np.where(excess < 0, lower, 0.0))

    def value(self, y: Floats, w: Floats) -> Floats:
        s, interval = self.slope(y, w), self.interval
        return np.asarray(s * (y - w - 0.5 * interval.rounding * s) - interval.epsilon * np.abs(s))

    def gradient(self, y: Floats, w: Floats) -> Floats:
        return -self.slope(y, w)

    def hessian(self, y: Floats, w: Floats) -> Floats:
        s, interval = self.slope(y, w), self.interval
        return (
            np.where(interval.free(y, s), 1.0 / interval.rounding, 0.0) if interval.rounding > 0 else np.zeros(s.shape)
        )

    def conjugate(self, y: Floats, s: Floats) -> Floats:
        lower, upper = self.interval.bounds(y)
        value = s * (y + 0.5 * self.interval.rounding * s) + self.interval.epsilon * np.abs(s)
        return np.where((-s < lower) | (-s > upper), np.inf, value)

    def guess(self, y: Floats, usual: float) -> Floats:
        """The targets, clipped at a few times their `usual` size."""
        return y if self.interval.mirrored or usual == 0 else np.clip(y, -CLIP * usual, CLIP * usual)

    def rounded(self, delta: float) -> BoxDual:
        """The same loss with δ increased by `delta`, which rounds its kinks."""
        return Rounded(self, delta)


@dataclass(frozen=True)
class Rounded(BoxDual):
    """A loss of this family with its kinks rounded by `delta`."""

    loss: BoxDual
    delta: float

    def __post_init__(self) -> None:
        checked_number(self, "delta", at_least=0.0)
        object.__setattr__(self, "binary", self.loss.binary)

    @cached_property
    def interval(self) -> Interval:
        interval = self.loss.interval
        return replace(interval, rounding=interval.rounding + self.delta)

    def targets(self, y: Floats) -> Floats:
        return self.loss.targets(y)
