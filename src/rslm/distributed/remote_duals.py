"""Dual variables on the workers of a cluster: sums over them, and changes that make them feasible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from rslm.distributed.cluster import Cluster
from rslm.evaluation.dual import quadratic_of_effects
from rslm.evaluation.feasible import Change, Flags
from rslm.problem import Problem
from rslm.runtime.types import Floats


class Solution(Protocol):
    """What is needed of a solution on the workers, which is kept as long as its dual variables."""

    key: str
    cluster: Cluster

    def asked(self, problem: Problem) -> str: ...


class RemoteDuals:
    """Sums over the dual variables of a solution, and changes that make them feasible; see `DualSums`, `Correctable`.

    The dual variables are on the workers. What was done to make them feasible is kept here too, for a worker that has
    lost them.

    Parameters
    ----------
    columns : list of slice
        The columns of each shard.
    solution : Solution
    problem : Problem
    """

    def __init__(self, columns: list[slice], solution: Solution, problem: Problem) -> None:
        self._slices, self._solution, self._problem, self._cluster = columns, solution, problem, solution.cluster
        self._problem_key, self.key = solution.asked(problem), uuid4().hex
        self._asked = solution.cluster.asked  # the solver of the problem, which must not be forgotten
        self._change = None if problem.location is None else Change()
        self.send()

    def send(self) -> None:
        self._cluster.known[self.key] = self
        own = [(None if self._change is None else self._of(self._change, columns),) for columns in self._slices]
        self._cluster.each("learn_duals", self.key, self._solution.key, self._problem_key, own=own)

    def _of(self, change: Change, columns: slice) -> Change:
        """The part of a change that concerns the shard of these columns."""
        x, lost, sides = change.x, change.lost, change.sides
        return replace(
            change,
            x=None if x is None else self._part(x, columns),
            lost=None if lost is None else self._part(lost, columns),
            sides=None if sides is None else (self._of_groups(sides[0], columns), self._of_groups(sides[1], columns)),
        )

    def _changed(self, **parts: Any) -> None:
        assert self._change is not None
        self._change = replace(self._change, **parts)
        self.send()

    def names(self) -> set[str]:
        return {self.key, self._problem_key}

    def _each(self, question: str, *args: Any) -> list[Any]:
        return self._cluster.each("duals", self.key, question, *args)

    def _total(self, question: str, *args: Any) -> Any:
        return self._cluster.total("duals", self.key, question, *args)

    def largest(self) -> float:
        return float(np.max(self._each("largest")))

    def rounding(self) -> float:
        return float(np.max(self._each("rounding")))

    def gram(self, X: Floats) -> Floats:
        total: Floats = self._total("gram", X)
        return total

    def frobenius_squared(self) -> float:
        return float(self._total("frobenius_squared"))

    def conjugate_part(self, alpha: float) -> float:
        return float(self._total("conjugate_part", alpha))

    def support(self) -> float:
        return float(self._total("support"))

    def quadratic(self) -> float:
        location = self._problem.location
        return 0.0 if location is None else quadratic_of_effects(location, *self._total("sums_of_effects"))

    def infeasibility(self) -> float:
        return 0.0

    # ---- making them feasible ----------------------------------------------------------------------------------------

    @property
    def _columns(self) -> int:
        """How many constraints belong to a column each; these come last."""
        location = self._problem.location
        return self._problem.shape[1] if location is not None and location.columns == 0.0 else 0

    def _part(self, x: NDArray[Any], columns: slice) -> NDArray[Any]:
        """The constraints of a shard: those of all columns, and its own."""
        shared = len(x) - self._columns
        return np.concatenate([x[:shared], x[shared:][columns]])

    def _joined(self, found: list[Floats]) -> Floats:
        """The constraints, from those of every shard."""
        if self._columns == 0:
            return np.asarray(sum(found))
        sizes = [columns.stop - columns.start for columns in self._slices]
        ends = [len(each) - size for each, size in zip(found, sizes, strict=True)]
        shared = np.asarray(sum(each[:end] for each, end in zip(found, ends, strict=True)))
        return np.concatenate([shared, *(each[end:] for each, end in zip(found, ends, strict=True))])

    def _correction(self, question: str, x: NDArray[Any] | None = None) -> list[Any]:
        own = None if x is None else [(self._part(x, columns),) for columns in self._slices]
        return self._cluster.each("correction", self.key, question, own=own)

    def classes(self, lost: Flags) -> tuple[Floats, Floats]:
        up, down = (self._joined(list(side)) for side in zip(*self._correction("classes", lost), strict=True))
        return up, down

    def lose(self, lost: Flags) -> None:
        self._changed(lost=lost)

    def measure(self) -> None:
        self._changed(largest=float(np.max(self._correction("largest_room"))))

    def violation(self) -> Floats:
        return self._joined(self._correction("violation"))

    def product(self, x: Floats) -> Floats:
        return self._joined(self._correction("product", x))

    def subtract(self, x: Floats) -> None:
        assert self._change is not None
        self._changed(x=x if self._change.x is None else self._change.x + x)

    def norm(self) -> float:
        return float(np.linalg.norm(self._correction("norm")))

    def bounded(self) -> bool:
        return any(self._correction("bounded"))

    def inside(self) -> bool:
        return all(self._correction("inside"))

    def balance(self) -> None:
        sides = self._correction("sides")
        own = self._columns > 0
        up, down = (np.concatenate(side) if own else np.asarray(sum(side)) for side in zip(*sides, strict=True))
        self._change = Change()  # from the dual variables before any change
        self._changed(sides=(up, down))

    def clear(self) -> None:
        self._changed(nothing=True)

    def _of_groups(self, side: Floats, columns: slice) -> Floats:
        return side[columns] if self._columns > 0 else side
