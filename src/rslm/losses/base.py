"""What every loss offers.

A loss is convex in the prediction w. Its functions are vectorised over entries and know nothing of matrices:

    value(y, w)      ℓ(y, w)
    gradient(y, w)   ∂ℓ/∂w
    hessian(y, w)    ∂²ℓ/∂w²
    conjugate(y, s)  ℓ*(y, s) = sup_w  s w − ℓ(y, w),  +inf outside its domain
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from rslm._typing import Floats


class Loss(ABC):
    """A convex loss ℓ(y, w) of a target y and a prediction w."""

    name: ClassVar[str]
    #: ℓ is quadratic in w with second derivative 2: inner problems are ridge regressions.
    quadratic: ClassVar[bool] = False

    @abstractmethod
    def value(self, y: Floats, w: Floats) -> Floats: ...

    @abstractmethod
    def gradient(self, y: Floats, w: Floats) -> Floats: ...

    @abstractmethod
    def hessian(self, y: Floats, w: Floats) -> Floats: ...

    @abstractmethod
    def conjugate(self, y: Floats, s: Floats) -> Floats: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
