"""Follows a method from outside: the clock stops while an iterate is scored.

The clock counts CPU seconds: every method has one thread, and what else the machine does is not its time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rslm.runtime.types import Floats


class Enough(Exception):  # noqa: N818 - not an error: the time is over
    """Raised by `Record` in the method when its time is over."""


class Record:
    """Called with every iterate of a method; keeps its score, the time of the method alone, and the last iterate.

    `score` returns numbers by name. The time until the first call is that of the start.
    """

    def __init__(
        self, score: Callable[[Floats, Floats], dict[str, float]], max_time: float = float("inf"), max_iter: int = 10**9
    ) -> None:
        self.score, self.max_time, self.max_iter = score, max_time, max_iter
        self.points: list[dict[str, float]] = []
        self.last: tuple[Floats, Floats]
        self.ended = "converged"
        self._spent, self._began = 0.0, 0.0

    def run(self, method: Callable[[Record], Any]) -> Record:
        """Run a method to its end, or to the end of the time."""
        self._began = time.process_time()
        try:
            method(self)
        except Enough as why:
            self.ended = str(why)
        return self

    @property
    def seconds(self) -> float:
        return self.points[-1]["seconds"]

    def __call__(self, left: Floats, right: Floats) -> None:
        self._spent += time.process_time() - self._began
        self.last = left, right
        self.points.append({"seconds": self._spent, **self.score(left, right)})
        if self._spent > self.max_time:
            raise Enough("time limit")
        if len(self.points) > self.max_iter:
            raise Enough("iteration limit")
        self._began = time.process_time()
