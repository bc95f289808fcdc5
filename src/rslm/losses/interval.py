"""The interval that the dual variable of an entry lives in, for losses of the form of `rslm.losses.box_dual`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rslm.runtime.types import Floats

SAMPLE = 100_000  # errors that the median is taken of


@dataclass(frozen=True)
class Interval:
    """What the dual variable s of an entry may be, and what it costs; the interval contains 0.

    Parameters
    ----------
    lower, upper : float
        Ends of the interval; upper may be infinite if there is a `rounding`.
    mirrored : bool
        Whether the interval is turned over for negative targets, as for two classes.
    epsilon : float
        Errors up to this cost nothing.
    rounding : float
        δ, by which the kinks are rounded.
    """

    lower: float
    upper: float
    mirrored: bool = False  #: the interval is turned over for negative targets
    epsilon: float = 0.0  #: ε: errors up to this cost nothing
    rounding: float = 0.0  #: δ: how far the kinks are rounded

    @property
    def reach(self) -> float:
        """The largest |s|: the loss is at most so steep. With a width δ · reach the kinks are rounded."""
        return max(-self.lower, self.upper)

    def __post_init__(self) -> None:
        ends = self.lower <= 0 <= self.upper and self.reach > 0 and (self.reach < np.inf or self.rounding > 0)
        if not (ends and self.epsilon >= 0 and self.rounding >= 0):
            raise ValueError(
                "an interval needs lower ≤ 0 ≤ upper, not both 0, ε ≥ 0 and δ ≥ 0, and δ > 0 if it has no end; got "
                f"lower = {self.lower}, upper = {self.upper}, epsilon = {self.epsilon}, rounding = {self.rounding}"
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
