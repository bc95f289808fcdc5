"""Bounds that W may violate at a cost.

    C Σ (1/2ε) distance(w − ε a⁰/C)²      with the expected multipliers a⁰, 0 unless given

If a⁰ are the multipliers at the solution with hard bounds, the problem with soft bounds has the same solution for any
ε: the method of multipliers. In the dual there is a term −(ε/2C) ‖a − a⁰‖² for the multipliers a.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from rslm.kernels import Columns
from rslm.runtime.types import Floats
from rslm.structures.base import Observed, Structure
from rslm.structures.box import Box


class Multipliers(NamedTuple):
    """Multipliers of bounds, a sparse matrix: positive at lower bounds, negative at upper ones."""

    entries: Columns
    values: Floats


@dataclass(frozen=True, eq=False)
class SoftBox(Structure):
    """A `Box` softened by ε > 0."""

    form: ClassVar[str] = "soft bounds"

    hard: Box
    softness: float  #: ε
    expected: Multipliers | None = None  #: a⁰, 0 if None

    def __post_init__(self) -> None:
        if not 0 < self.softness < float("inf"):
            raise ValueError(f"softness must be a positive number; got {self.softness!r}")

    def planes(self, shape: tuple[int, int]) -> tuple[Floats, Floats]:
        """The bounds of every entry of a matrix of this shape, as `Box.planes`."""
        return self.hard.planes(shape)

    @property
    def box(self) -> Box:
        return self.hard

    def check(self, data: Observed) -> None:
        self.hard.check(data)
