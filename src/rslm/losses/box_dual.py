"""Losses whose dual variable lives in an interval: piecewise linear ones, and those with equally rounded kinks.

With e = y − w,

    ℓ(y, w) = max over lower ≤ s ≤ upper of   s e − ε|s| − ½ δ s²

and s, the maximiser, is −∂ℓ/∂w. The interval, ε and δ are all there is to a loss of this family:

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
from numpy.typing import NDArray

from rslm.losses.base import Loss
from rslm.losses.checks import checked_number
from rslm.runtime.types import Floats

SAMPLE = 100_000  # errors that are looked at for their median
CLIP = 3.0  # medians of the size of the targets, beyond which a target tells nothing of where to start


@dataclass(frozen=True)
class Box:
    """What the dual variable s of an entry may be, and what it costs; the interval contains 0.

    Parameters
    ----------
    lower, upper : float
        Ends of the interval; upper may be infinite if there is a `smoothing`.
    mirrored : bool
        Whether the interval is turned over for negative targets, as for two classes.
    epsilon : float
        Errors up to this cost nothing.
    smoothing : float
        δ, by which the kinks are rounded.
    """

    lower: float
    upper: float
    mirrored: bool = False  #: the interval is turned over for negative targets
    epsilon: float = 0.0  #: ε: errors up to this cost nothing
    smoothing: float = 0.0  #: δ: how far the kinks are rounded

    @property
    def reach(self) -> float:
        """The largest |s|: the loss is at most so steep. With a width δ · reach the kinks are rounded."""
        return max(-self.lower, self.upper)

    def __post_init__(self) -> None:
        ends = self.lower <= 0 <= self.upper and self.reach > 0 and (self.reach < np.inf or self.smoothing > 0)
        if not (ends and self.epsilon >= 0 and self.smoothing >= 0):
            raise ValueError(
                "a box needs lower ≤ 0 ≤ upper, not both 0, ε ≥ 0 and δ ≥ 0, and δ > 0 if it has no end; got "
                f"lower = {self.lower}, upper = {self.upper}, epsilon = {self.epsilon}, smoothing = {self.smoothing}"
            )

    def beyond(self, y: Floats, error: Floats) -> Floats:
        """How far an error of y is where it costs something: beyond ε, on a side where s may go; negative elsewhere."""
        e = np.sign(y) * error if self.mirrored else error
        both = np.abs(e) if self.lower < 0 < self.upper else e if self.upper > 0 else -e
        return np.asarray(both - self.epsilon)

    def typical(self, y: Floats, error: Floats) -> float:
        """The median of `beyond(y, error)` where an error costs something; 0 where none does. A sample is looked at."""
        some = slice(None, None, error.size // SAMPLE + 1)
        beyond = self.beyond(y[some], error[some])
        positive = beyond[beyond > 0]
        return float(np.median(positive)) if positive.size else 0.0

    def bounds(self, y: Floats) -> tuple[Floats, Floats]:
        """The ends of the interval for every target y."""
        if not self.mirrored:
            return np.asarray(self.lower), np.asarray(self.upper)
        return np.where(y < 0, -self.upper, self.lower), np.where(y < 0, -self.lower, self.upper)

    def free(self, y: Floats, s: Floats) -> NDArray[np.bool_]:
        """Where s is inside its interval for the target y and, with ε, not held at 0: it follows a change of w."""
        lower, upper = (end.astype(s.dtype) for end in self.bounds(y))  # an end of the box in single precision is one
        inside = (s > lower) & (s < upper)
        return np.asarray(inside & (s != 0) if self.epsilon > 0 else inside)


class BoxDual(Loss):
    """A loss ℓ(y, w) = max_s s (y − w) − ε|s| − ½ δ s² over a box of s: piecewise linear or quadratic ones."""

    @property
    @abstractmethod
    def box(self) -> Box:
        """The interval of s, ε and δ: all that makes one loss of this family differ from another."""

    def slope(self, y: Floats, w: Floats) -> Floats:
        """s = −∂ℓ/∂w; 0 at a kink, where any value between those on either side would do."""
        box, e = self.box, y - w
        excess = np.sign(e) * np.maximum(np.abs(e) - box.epsilon, 0.0) if box.epsilon > 0 else e
        lower, upper = box.bounds(y)
        if box.smoothing > 0:
            return np.asarray(np.clip(excess / box.smoothing, lower, upper))
        return np.where(excess > 0, upper, np.where(excess < 0, lower, 0.0))

    def value(self, y: Floats, w: Floats) -> Floats:
        s, box = self.slope(y, w), self.box
        return np.asarray(s * (y - w - 0.5 * box.smoothing * s) - box.epsilon * np.abs(s))

    def gradient(self, y: Floats, w: Floats) -> Floats:
        return -self.slope(y, w)

    def hessian(self, y: Floats, w: Floats) -> Floats:
        s, box = self.slope(y, w), self.box
        return np.where(box.free(y, s), 1.0 / box.smoothing, 0.0) if box.smoothing > 0 else np.zeros(s.shape)

    def conjugate(self, y: Floats, s: Floats) -> Floats:
        lower, upper = self.box.bounds(y)
        value = s * (y + 0.5 * self.box.smoothing * s) + self.box.epsilon * np.abs(s)
        return np.where((-s < lower) | (-s > upper), np.inf, value)

    def guess(self, y: Floats, usual: float) -> Floats:
        """The targets, but gross ones cut to what is usual."""
        return y if self.box.mirrored or usual == 0 else np.clip(y, -CLIP * usual, CLIP * usual)

    def smoothed(self, delta: float) -> BoxDual:
        """The same loss with its kinks rounded by δ = `delta` more."""
        return Smoothed(self, delta)


@dataclass(frozen=True)
class Smoothed(BoxDual):
    """A loss of this family with its kinks rounded by `delta`."""

    loss: BoxDual
    delta: float

    def __post_init__(self) -> None:
        checked_number(self, "delta", at_least=0.0)
        object.__setattr__(self, "binary", self.loss.binary)

    @cached_property
    def box(self) -> Box:
        box = self.loss.box
        return replace(box, smoothing=box.smoothing + self.delta)

    def targets(self, y: Floats) -> Floats:
        return self.loss.targets(y)
