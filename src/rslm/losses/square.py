"""The square loss.

Domain:  y and w any real number.
Formula: ℓ(y, w) = (y − w)²,  ℓ*(y, s) = s²/4 + s y.
Caveat:  there is no factor ½, so the second derivative is 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rslm.losses.base import Loss
from rslm.runtime.types import Floats


@dataclass(frozen=True)
class Square(Loss):
    """ℓ(y, w) = (y − w)², without a factor ½."""

    quadratic: ClassVar[bool] = True

    def value(self, y: Floats, w: Floats) -> Floats:
        return (y - w) ** 2

    def gradient(self, y: Floats, w: Floats) -> Floats:
        return 2.0 * (w - y)

    def hessian(self, y: Floats, w: Floats) -> Floats:
        return np.full(np.broadcast(y, w).shape, 2.0)

    def conjugate(self, y: Floats, s: Floats) -> Floats:
        return s * (s / 4.0 + y)

    def guess(self, y: Floats, usual: float) -> Floats:
        return y
