"""A problem in the form that is sent to workers: everything but the observations, which they have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast
from uuid import uuid4

from rslm.location import Location
from rslm.losses import Loss
from rslm.measurements import AllEntries, Entries, Tasks
from rslm.problem import Problem
from rslm.runtime.types import Floats
from rslm.structures import Box, Multipliers, SoftBox

Map = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Expected:
    """The multipliers at the solution of another problem, which a worker that has lost them solves again."""

    recipe: Recipe
    U: Floats
    key: str = field(default_factory=lambda: uuid4().hex)


@dataclass(frozen=True)
class Recipe:
    """Loss, structure, weights and location of all columns, or of those of one shard."""

    loss: Loss
    C: float
    maps: tuple[Map, ...]  #: functions that are applied to the observed values, in this order
    box: Box | None
    softness: float | None  #: of the bounds; None for hard bounds
    expected: Expected | None
    row_weights: Floats | None
    column_weights: Floats | None
    location: Location | None
    background: float = 0.0  #: weight of zeros at all entries
    key: str = field(default_factory=lambda: uuid4().hex)

    def part(self, columns: slice) -> Recipe:
        """The recipe for a slice of the `columns`."""
        expected, q = self.expected, self.column_weights
        return replace(
            self,
            box=None if self.box is None else self.box.transposed().part(columns).transposed(),
            expected=None if expected is None else replace(expected, recipe=expected.recipe.part(columns)),
            column_weights=None if q is None else q[columns],
        )

    def mapped(self, values: Floats) -> Floats:
        for function in self.maps:
            values = function(values)
        return values

    def problem(self, data: Entries | Tasks, expected: Multipliers | None) -> Problem:
        """The problem of a worker with its observations and the expected multipliers of its columns, if any."""
        if self.maps:
            data = data.as_targets(self.loss, self.mapped)
        if self.background > 0.0:
            data = AllEntries.of(cast(Entries, data), self.background)
        structure: Box | SoftBox | None = self.box
        if self.box is not None and self.softness is not None:
            structure = SoftBox(self.box, self.softness, expected)
        weights = self.row_weights, self.column_weights
        return Problem(self.loss, data, structure, self.C, *weights, self.location)
