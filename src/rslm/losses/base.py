"""The interface of a loss.

A loss is convex in the prediction w. Its functions are vectorised over entries and do not depend on matrices:

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
        """∂ℓ/∂w; at a kink, any value between the left and the right derivative."""

    @abstractmethod
    def hessian(self, y: Floats, w: Floats) -> Floats:
        """∂²ℓ/∂w², where it exists; 0 at kinks."""

    @abstractmethod
    def conjugate(self, y: Floats, s: Floats) -> Floats:
        """ℓ*(y, s) = sup_w  s w − ℓ(y, w), +inf outside its domain. Only the certificate needs it."""

    @property
    def interval(self) -> Interval | None:
        """The interval of the dual variable, for losses that are defined by one (`BoxDual`); None for others."""
        return None

    @property
    def smooth(self) -> bool:
        """Whether the loss has no kinks, so that Newton's method can use its second derivative."""
        return self.interval is None or self.interval.rounding > 0

    def rounded(self, delta: float) -> Loss:
        """The loss with its kinks rounded by δ = `delta`; the loss itself if it has no kinks."""
        return self

    def targets(self, y: Floats) -> Floats:
        """The targets in the form that the other functions expect; an error for targets that the loss cannot accept.

        Predictions, residuals and scores are in the units of the returned targets.
        """
        return y

    def guess(self, y: Floats, usual: float) -> Floats:
        """A first guess of the predictions, up to a factor. The solvers start from its leading singular vectors.

        `y` may be a part of the targets; `usual` is the median of |y| over all nonzero targets.
        """
        return np.asarray(-self.gradient(y, np.zeros_like(y)), dtype=y.dtype)

    def probability(self, w: Floats) -> Floats:
        """The probability of the class 1; only for losses that are `probabilistic`."""
        raise NotImplementedError(f"{self!r} gives no probabilities")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
