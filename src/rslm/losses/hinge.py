"""The hinge loss of support vector machines.

Domain:  y is −1 or 1 (0 and 1, or booleans, are converted), w any real number.
Formula: ℓ(y, w) = max(1 − y w, 0),  ℓ*(y, s) = s y for −1 ≤ s y ≤ 0.
Caveat:  the sign of w is the class; there are no probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

from rslm.losses.box_dual import BoxDual
from rslm.losses.checks import signs
from rslm.losses.interval import Interval
from rslm.runtime.types import Floats


@dataclass(frozen=True)
class Hinge(BoxDual):
    """ℓ(y, w) = max(1 − y w, 0) for y = ±1 (or booleans, or 0 and 1)."""

    binary = True

    @property
    def interval(self) -> Interval:
        return Interval(0.0, 1.0, mirrored=True)

    def targets(self, y: Floats) -> Floats:
        return signs(self, y)
