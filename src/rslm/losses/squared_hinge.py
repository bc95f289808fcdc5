"""The squared hinge loss.

Domain:  y is −1 or 1 (0 and 1, or booleans, are converted), w any real number.
Formula: ℓ(y, w) = max(1 − y w, 0)²,  ℓ*(y, s) = s y + s²/4 for s y ≤ 0.
Caveat:  smoother than the hinge, but more sensitive to entries on the wrong side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rslm.losses.box_dual import BoxDual
from rslm.losses.checks import signs
from rslm.losses.interval import Interval
from rslm.runtime.types import Floats


@dataclass(frozen=True)
class SquaredHinge(BoxDual):
    """ℓ(y, w) = max(1 − y w, 0)² for y = ±1 (or booleans, or 0 and 1)."""

    binary = True

    @property
    def interval(self) -> Interval:
        return Interval(0.0, math.inf, mirrored=True, rounding=0.5)

    def targets(self, y: Floats) -> Floats:
        return signs(self, y)
