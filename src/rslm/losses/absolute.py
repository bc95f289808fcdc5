"""The absolute loss.

Domain:  y and w any real number.
Formula: ℓ(y, w) = |y − w|,  ℓ*(y, s) = s y for |s| ≤ 1.
Caveat:  the prediction is a median, so gross errors in some entries hardly change it.
"""

from __future__ import annotations

from dataclasses import dataclass

from rslm.losses.box_dual import BoxDual
from rslm.losses.interval import Interval


@dataclass(frozen=True)
class Absolute(BoxDual):
    """ℓ(y, w) = |y − w|: the prediction is a median, which gross errors hardly change."""

    @property
    def interval(self) -> Interval:
        return Interval(-1.0, 1.0)
