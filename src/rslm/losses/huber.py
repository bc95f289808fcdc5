"""The Huber loss.

Domain:  y and w any real number, δ > 0.
Formula: ℓ(y, w) = ½ (y − w)² where |y − w| ≤ δ, δ (|y − w| − ½ δ) elsewhere;  ℓ*(y, s) = s y + ½ s² for |s| ≤ δ.
Caveat:  unlike the square loss it has a factor ½. δ is in the units of the data.
"""

from __future__ import annotations

from dataclasses import dataclass

from rslm.losses.box_dual import BoxDual
from rslm.losses.checks import checked_number
from rslm.losses.interval import Interval


@dataclass(frozen=True)
class Huber(BoxDual):
    """ℓ(y, w) = ½ e² where |e| = |y − w| ≤ δ, and δ (|e| − ½ δ) elsewhere.

    Parameters
    ----------
    delta : float, default=1.0
        δ > 0, in the units of the data: for larger errors the loss grows linearly.
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        checked_number(self, "delta", above=0.0)

    @property
    def interval(self) -> Interval:
        return Interval(-self.delta, self.delta, rounding=1.0)
