"""What all measurements have that are at hand: one value for every observation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from rslm.runtime.types import Floats


class Observations:
    """The values, in the order of the observations."""

    values: Floats
    _loss: object = None  # whose targets the values are
    _checked = False  # whether the values have been looked at

    def with_values(self, values: Floats) -> Self:
        """The same observations with other `values`."""
        other = self.__class__.__new__(self.__class__)
        other.__dict__.update(self.__dict__)
        other.values, other._checked = values, False
        return other

    def map(self, function: Callable[[Floats], Floats]) -> Self:
        """The same observations with the values that a `function` makes of them."""
        return self.with_values(function(self.values))

    def as_targets(self, loss: object, function: Callable[[Floats], Floats]) -> Self:
        """The same observations with what a `loss` makes of their values, by a `function`, unless they are that."""
        if self._loss is loss:
            return self
        targets = function(self.values)
        if targets is self.values:
            return self
        other = self.with_values(targets)
        other._loss = loss
        return other

    def checked(self, function: Callable[[Floats], Floats]) -> Self:
        """The same observations with their values as a `function` accepts them, which is asked once."""
        if self._checked:
            return self
        accepted = function(self.values)
        loss = self._loss
        other = self if accepted is self.values else self.with_values(accepted)
        other._loss, other._checked = loss, True
        return other

    def sample(self, size: int) -> Floats:
        """Values of about `size` observations, evenly spaced."""
        return self.values[:: len(self.values) // size + 1]
