"""What every loss offers.

A loss is convex in the prediction w. Its functions are vectorised over entries and know nothing of matrices:

    value(y, w)      ℓ(y, w)
    gradient(y, w)   ∂ℓ/∂w
    hessian(y, w)    ∂²ℓ/∂w², where it exists; 0 at kinks
    conjugate(y, s)  ℓ*(y, s) = sup_w  s w − ℓ(y, w),  +inf outside its domain

They may be called from several threads at once, so they must not change the object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from rslm.losses.interval import Interval
from rslm.runtime.types import Floats


class Loss(ABC):
    """A convex loss ℓ(y, w) of a target y and a prediction w."""

    #: ℓ is quadratic in w with second derivative 2: inner problems are ridge regressions.
    quadratic: ClassVar[bool] = False
    #: The targets are two classes, −1 and 1.
    binary: bool = False
    #: `probability` turns predictions into probabilities of the class 1.
    probabilistic: ClassVar[bool] = False

    @abstractmethod
    def value(self, y: Floats, w: Floats) -> Floats:
        """ℓ(y, w) of every target and prediction, arrays of one shape."""

    @abstractmethod
    def gradient(self, y: Floats, w: Floats) -> Floats:
        """∂ℓ/∂w; at a kink any slope between those on either side."""

    @abstractmethod
    def hessian(self, y: Floats, w: Floats) -> Floats:
        """∂²ℓ/∂w², where it exists; 0 at kinks."""

    @abstractmethod
    def conjugate(self, y: Floats, s: Floats) -> Floats:
        """ℓ*(y, s) = sup_w  s w − ℓ(y, w), +inf outside its domain. Only the certificate needs it."""

    @property
    def interval(self) -> Interval | None:
        """The interval of the dual variable, for losses that are given by one (`BoxDual`); None for others."""
        return None

    @property
    def smooth(self) -> bool:
        """Whether there are no kinks, so that the second derivative is all that Newton's method needs."""
        return self.interval is None or self.interval.rounding > 0

    def rounded(self, delta: float) -> Loss:
        """The loss with its kinks rounded by δ = `delta`; itself where it has none."""
        return self

    def targets(self, y: Floats) -> Floats:
        """The targets as the other functions want them; an error for those that the loss cannot take.

        Predictions, residuals and scores are in the units of what comes out of here.
        """
        return y

    def guess(self, y: Floats, usual: float) -> Floats:
        """A first guess of the predictions, up to a factor. The solvers start from its leading singular vectors.

        `y` may be some of all targets; those of them that are not 0 have the median size `usual`.
        """
        return np.asarray(-self.gradient(y, np.zeros_like(y)), dtype=y.dtype)

    def probability(self, w: Floats) -> Floats:
        """The probability of the class 1; only of losses that are `probabilistic`."""
        raise NotImplementedError(f"{self!r} gives no probabilities")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
