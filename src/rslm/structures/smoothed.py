"""Linear structure in the form that is solved: W = P(w) holds exactly, low rank only approximately.

For a generic U only W = 0 has both the structure and all columns in the span of U, so ⟨(UUᵀ)⁺ W, W⟩ would be infinite
for every other W. With UUᵀ + δI in place of UUᵀ it is finite everywhere, and W gets low rank as δ → 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

from rslm.structures.base import Observed, Structure
from rslm.structures.linear import LinearStructure


@dataclass(frozen=True, eq=False)
class Smoothed(Structure):
    """A linear structure with ½⟨(UUᵀ + δI)⁻¹ W, W⟩ in place of the trace norm term."""

    form: ClassVar[str] = "smoothed"
    couples_columns: ClassVar[bool] = True

    structure: LinearStructure
    delta: float  #: relative to U, whose norm is 1

    def __post_init__(self) -> None:
        if not isinstance(self.delta, Real) or not 0 < self.delta < math.inf:
            raise ValueError(f"δ must be a positive number; got {self.delta!r}")

    @property
    def linear(self) -> LinearStructure:
        return self.structure

    def shape_of(self, data: Observed) -> tuple[int, int]:
        return self.structure.shape

    def check(self, data: Observed) -> None:
        self.structure.check_shape(data)
