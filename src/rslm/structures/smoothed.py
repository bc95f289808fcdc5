"""Linear structure in the form that is solved: W = P(w) exactly, and of low rank only nearly.

For a generic U no matrix with columns in the span of U has the structure but W = 0, so ⟨(UUᵀ)⁺ W, W⟩ would be infinite
for all others. With UUᵀ + δI in the place of UUᵀ it is finite everywhere, and δ → 0 makes W of low rank.
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
    """A linear structure with ½⟨(UUᵀ + δI)⁻¹ W, W⟩ in the place of the trace norm."""

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
