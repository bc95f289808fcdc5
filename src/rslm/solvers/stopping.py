"""Stopping criteria: each returns an `Outcome`, which says whether it means convergence, or None to continue."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from rslm.certificate.relaxation import Relaxations
from rslm.evaluation.objective import Evaluation
from rslm.location import Effects
from rslm.runtime.magnitudes import as_float
from rslm.runtime.outcome import Outcome
from rslm.runtime.types import Floats

LEAST_TIME = 1e-3  # seconds for a solver when no time is left, because max_time must be positive


@dataclass(frozen=True)
class Progress:
    """The state of a solver after an iteration, for the criteria and the user's callback."""

    iteration: int
    value: float
    relative_gradient: float
    seconds: float
    evaluations: int
    hessian_products: int
    C: float  #: smaller than the given C in stages that only provide a warm start
    relaxations: Relaxations  #: what makes the present problem easier than the given one
    relative_gap: float  #: the last one computed, which is done rarely; NaN before the first
    evaluation: Evaluation

    @property
    def U(self) -> Floats:
        return self.evaluation.U

    @property
    def V(self) -> Floats:
        """V, fetched on access, because it may be on workers."""
        return self.evaluation.V

    @property
    def intercepts(self) -> Floats | None:
        return self.evaluation.intercepts

    @property
    def effects(self) -> Effects | None:
        return self.evaluation.effects


class Criterion(Protocol):
    def check(self, progress: Progress) -> Outcome | None: ...


@dataclass
class NotFinite:
    """The objective or its gradient is not finite."""

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
        """The last values and gradients, the oldest first."""
        return list(self._seen)

    def restore(self, state: list[tuple[float, float]]) -> None:
        """Continue from a stored `state`."""
        self._seen.extend(state)

    def forget(self) -> None:
        """Begin anew."""
        self._seen.clear()

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
    """Raise an error unless `tol` is a finite number ≥ 0."""
    if not 0 <= as_float(tol) < math.inf:
        raise ValueError(f"tol must be a finite number ≥ 0; got {tol!r}")


def time_left(max_time: float | None, began: float) -> float | None:
    """The time that is left of `max_time` since `began`; an invalid `max_time` is returned for `solve` to report."""
    if max_time is None or not 0 < as_float(max_time) < math.inf:
        return max_time
    return max(float(max_time) - (time.perf_counter() - began), LEAST_TIME)


def check_max_time(max_time: object) -> None:
    """Raise an error unless `max_time` is None or a positive number of seconds."""
    if max_time is not None and max_time != math.inf and not 0 < as_float(max_time) < math.inf:
        raise ValueError(f"max_time must be None or a positive number of seconds; got {max_time!r}")
