"""Observations that other processes keep, column by column: only sums over them are known here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from rslm.kernels import Columns
from rslm.runtime.types import Floats, Indices64


class Elsewhere(ABC):
    """A measurement whose columns are shared out among other processes."""

    shape: tuple[int, int]  #: (d, T)

    @property
    def values(self) -> Floats:
        raise TypeError("the observations are kept by other processes")

    @property
    def columns(self) -> Columns:
        raise TypeError("the observations are kept by other processes")

    def places(self) -> tuple[Indices64, Indices64]:
        raise TypeError("the observations are kept by other processes")

    @abstractmethod
    def __len__(self) -> int:
        """How many observations there are."""

    @abstractmethod
    def solver(self, problem: Any) -> Any:
        """The inner solver of a problem with these observations, which solves it where they are."""

    @abstractmethod
    def gram(self, problem: Any, usual: float) -> Callable[[Floats], Floats]:
        """X ↦ Y YᵀX for the data Y, of this usual size, as the loss of the problem sees them, divided by weights."""

    @abstractmethod
    def sample(self, size: int) -> Floats:
        """Values of about so many observations, evenly spaced."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Something short that is the same for the same observations, and hardly ever for others."""

    @abstractmethod
    def map(self, function: Callable[[Floats], Floats]) -> Elsewhere:
        """The same observations with the values that a function, which has to be picklable, makes of them."""
