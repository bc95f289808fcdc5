"""All matrices, with a quadratic cost ½⟨W, 𝓛W⟩ for a symmetric positive semidefinite map 𝓛."""

from __future__ import annotations

from abc import abstractmethod

from rslm.runtime.types import Floats
from rslm.structures.base import Observed, Structure
from rslm.structures.validate import validate_penalty


class Penalty(Structure):
    """A quadratic penalty. `Smooth` is one; yours needs these four methods."""

    form = "penalty"
    couples_columns = True

    def check(self, data: Observed) -> None:
        super().check(data)
        if not type(self).__module__.startswith("rslm."):
            validate_penalty(self, data.shape)

    @abstractmethod
    def penalty(self, A: Floats, B: Floats) -> float:
        """½⟨W, 𝓛W⟩ for W = A Bᵀ with thin A and B."""

    @abstractmethod
    def times(self, A: Floats, B: Floats, Y: Floats) -> Floats:
        """(𝓛W) Y for W = A Bᵀ with thin A and B."""

    @abstractmethod
    def transposed_times(self, A: Floats, B: Floats, X: Floats) -> Floats:
        """(𝓛W)ᵀ X for W = A Bᵀ with thin A and B."""

    @property
    @abstractmethod
    def average(self) -> float:
        """The average second derivative by an entry of W, for a preconditioner."""
