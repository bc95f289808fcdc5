"""The interval of the dual variable of an entry, for losses of the form of `rslm.losses.box_dual`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rslm.runtime.types import Floats

SAMPLE = 100_000  # errors from which the median is estimated


@dataclass(frozen=True)
class Interval:
    """The allowed values of the dual variable s of an entry and their cost; the interval contains 0.

    Parameters
    ----------
    lower, upper : float
        Ends of the interval; upper may be infinite if `rounding` is positive.
    mirrored : bool
        Whether the interval is [−upper, −lower] for negative targets, as for two classes.
    epsilon : float
        Errors up to this cost nothing.
    rounding : float
        δ, by which the kinks are rounded.
    """

    lower: float
    upper: float
    mirrored: bool = False  #: the interval is [−upper, −lower] for negative targets
    epsilon: float = 0.0  #: ε: errors up to this cost nothing
    rounding: float = 0.0  #: δ, by which the kinks are rounded

    @property
    def reach(self) -> float:
        """The largest |s|, which is the largest slope of the loss. The rounded part of a kink is δ · reach wide."""
        return max(-self.lower, self.upper)

    def __post_init__(self) -> None:
        ends = self.lower <= 0 <= self.upper and self.reach > 0 and (self.reach < np.inf or self.rounding > 0)
        if not (ends and self.epsilon >= 0 and self.rounding >= 0):
            raise ValueError(
                "an interval needs lower ≤ 0 ≤ upper, not both 0, ε ≥ 0 and δ ≥ 0, and δ > 0 if it is unbounded; got "
                f"lower = {self.lower}, upper = {self.upper}, epsilon = {self.epsilon}, rounding = {self.rounding}"
            )

    def beyond(self, y: Floats, error: Floats) -> Floats:
        """By how much an `error` of y exceeds ε in a direction where it costs something; negative if it is free."""
        e = np.sign(y) * error if self.mirrored else error
        both = np.abs(e) if self.lower < 0 < self.upper else e if self.upper > 0 else -e
        return np.asarray(both - self.epsilon)

    def typical(self, y: Floats, error: Floats) -> float:
        """The median of the positive `beyond(y, error)`, estimated from a sample; 0 if no error costs anything."""
        sample = slice(None, None, error.size // SAMPLE + 1)
        excess = self.beyond(y[sample], error[sample])
        positive = excess[excess > 0]
        return float(np.median(positive)) if positive.size else 0.0

    def bounds(self, y: Floats) -> tuple[Floats, Floats]:
        """The ends of the interval for every target y."""
        if not self.mirrored:
            return np.asarray(self.lower), np.asarray(self.upper)
        return np.where(y < 0, -self.upper, self.lower), np.where(y < 0, -self.lower, self.upper)

    def free(self, y: Floats, s: Floats) -> NDArray[np.bool_]:
        """Where s is strictly inside its interval for y and, with ε > 0, not 0, so that it changes with w."""
        lower, upper = (end.astype(s.dtype) for end in self.bounds(y))  # so that s at an end in float32 equals it
        inside = (s > lower) & (s < upper)
        return np.asarray(inside & (s != 0) if self.epsilon > 0 else inside)
