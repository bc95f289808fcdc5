"""When to stop, and whether that means convergence: a criterion answers with an `Outcome` or with None."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from rslm.certificate.relaxation import Relaxations
from rslm.evaluation.objective import Evaluation
from rslm.runtime.magnitudes import as_float
from rslm.runtime.outcome import Outcome
from rslm.runtime.types import Floats

SOME_TIME = 1e-3  # seconds, for a solver that there is no time left for


@dataclass(frozen=True)
class Progress:
    """Where a solver stands after an iteration; handed to the criteria and to the user's callback."""

    iteration: int
    value: float
    relative_gradient: float
    seconds: float
    evaluations: int
    hessian_products: int
    C: float  #: smaller than the one asked for while the solver warm-starts from smaller C
    relaxations: Relaxations  #: what makes the present problem easier than the one that was asked for
    relative_gap: float  #: as last computed, which is done now and then; NaN before
    evaluation: Evaluation

    @property
    def U(self) -> Floats:
        return self.evaluation.U

    @property
    def V(self) -> Floats:
        """Only when it is asked for, because it may have to come from workers."""
        return self.evaluation.V

    @property
    def intercepts(self) -> Floats | None:
        return self.evaluation.intercepts


class Criterion(Protocol):
    def check(self, progress: Progress) -> Outcome | None: ...


@dataclass
class NotFinite:
    """The objective or its gradient is not a finite number."""

    def check(self, progress: Progress) -> Outcome | None:
        return None if math.isfinite(progress.value) and math.isfinite(progress.relative_gradient) else Outcome.FAILED


@dataclass
class SmallGradient:
    """The Riemannian gradient is small relative to the Euclidean one."""

    tol: float

    def check(self, progress: Progress) -> Outcome | None:
        return Outcome.STATIONARY if progress.relative_gradient <= self.tol else None


@dataclass
class NoProgress:
    """Neither the objective nor the gradient has become noticeably smaller for a while."""

    patience: int = 10
    noise: float = 1e-14  # relative change of the objective that rounding alone can cause

    def __post_init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=self.patience)

    def state(self) -> list[tuple[float, float]]:
        """What was seen, the oldest first."""
        return list(self._seen)

    def restore(self, state: list[tuple[float, float]]) -> None:
        """Go on as the one would whose state this is."""
        self._seen.extend(state)

    def check(self, progress: Progress) -> Outcome | None:
        full = len(self._seen) == self.patience
        if full:
            value, gradient = self._seen[0]
            best = min(progress.relative_gradient, *(g for _, g in list(self._seen)[1:]))
            if value - progress.value <= self.noise * abs(value) and best > 0.5 * gradient:
                return Outcome.STALLED
        self._seen.append((progress.value, progress.relative_gradient))
        return None


@dataclass
class IterationLimit:
    most: int
    means: Outcome = Outcome.ITERATIONS

    def check(self, progress: Progress) -> Outcome | None:
        return self.means if progress.iteration >= self.most else None


@dataclass
class TimeLimit:
    seconds: float

    def check(self, progress: Progress) -> Outcome | None:
        return Outcome.TIME if progress.seconds >= self.seconds else None


def check_tol(tol: object) -> None:
    """A number from 0 on."""
    if not 0 <= as_float(tol) < math.inf:
        raise ValueError(f"tol must be a finite number ≥ 0; got {tol!r}")


def time_left(max_time: float | None, began: float) -> float | None:
    """What is left of the time when some was spent before the solver begins; what is no time is left to `solve`."""
    if max_time is None or not 0 < as_float(max_time) < math.inf:
        return max_time
    return max(float(max_time) - (time.perf_counter() - began), SOME_TIME)


def check_max_time(max_time: object) -> None:
    """None, or a positive number of seconds."""
    if max_time is not None and max_time != math.inf and not 0 < as_float(max_time) < math.inf:
        raise ValueError(f"max_time must be None or a positive number of seconds; got {max_time!r}")
