"""What a model has learned of the rows of a matrix, or of its columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rslm.runtime.types import Floats


@dataclass(frozen=True)
class Coefficients:
    """Factors and effects of one side."""

    factors: Floats  #: (count, rank)
    effects: Floats | None  #: (count,); None where this side has none

    @property
    def table(self) -> Floats:
        """All of them, (count, k)."""
        return self.factors if self.effects is None else np.column_stack([self.factors, self.effects])

    def like(self, table: Floats) -> Coefficients:
        """Coefficients of the same kind from a table of them."""
        return Coefficients(table, None) if self.effects is None else Coefficients(table[:, :-1], table[:, -1])

    def design(self, effects: bool) -> tuple[Floats, Floats]:
        """The coordinates on which the other side is regressed, a constant for its effects included, and an offset."""
        count = len(self.factors)
        X = np.column_stack([self.factors, np.ones(count)]) if effects else self.factors
        return X, np.zeros(count) if self.effects is None else self.effects

    def scaled(self, factors: float, effects: float) -> Coefficients:
        """Factors and effects multiplied by these numbers."""
        return Coefficients(self.factors * factors, None if self.effects is None else self.effects * effects)
