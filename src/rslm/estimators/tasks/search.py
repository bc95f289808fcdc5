"""Which model predicts held-out rows best: a walk over C, rank and ridges, with warm starts.

First one model for all tasks, then a ridge for every task, then low rank: C grows on a coarse path, the rank is varied,
then everything is varied in smaller steps while the held-out error falls. All settings are in units that depend neither
on the size of the data nor on their units.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rslm.estimators.tasks.family import LOW_RANK, NONE, RIDGE, Family, Fitted, Setting
from rslm.estimators.tasks.folds import Fold
from rslm.estimators.tasks.intervals import HeldOut
from rslm.estimators.tasks.pooled import WIDEST, PooledSquares
from rslm.evaluation.effects import effects_alone
from rslm.kernels import Stopped
from rslm.location import Location
from rslm.losses import Loss
from rslm.measurements import Tasks
from rslm.problem import Problem
from rslm.runtime.interrupts import current_interrupt
from rslm.runtime.log import logger

STEPS = 2  # per factor of ten
CS = tuple(10.0 ** (k / STEPS) for k in range(-2, 13))  # in units of the weight of one row of an average task
COMMON = (*(10.0 ** (k / STEPS) for k in range(-2, 11)), None)
INTERCEPTS = tuple(10.0 ** (k / STEPS) for k in range(-4, 7))
RANKS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 120)
FIRST_RANK, FIRST_OF_MANY = 20, 10  # of the path of C; the second where there are many rows
PATH = tuple(range(2, 15, 2))  # positions of the coarse path in `CS`
PATIENCE = 2  # settings in a row that are worse than the best one before a path ends
CLEARLY = 0.03  # increase of the held-out error for which a path ends at once
NOTICEABLE = 1e-4  # least decrease of the held-out error for which a walk goes on
SIMPLER = 1e-3  # a model that is this much worse, relatively, is preferred if it is simpler
ENOUGH = 1e-12  # held-out error relative to that of the mean below which nothing can be improved
THE_MEAN, POOLED, BY_TASK, CHOSEN = "mean", "pooled", "by_task", "model"

Values = Sequence[Any]  # numbers, and None for a part that is left out


@dataclass(eq=False)
class Axes:
    """The values of every setting that may be tried, the smallest first."""

    C: Values
    rank: Values
    common: Values
    intercepts: Values
    full_rank: int

    def of(self, name: str) -> Values:
        return cast(Values, getattr(self, name))


@dataclass(eq=False)
class Search:
    """Held-out errors of settings; each is computed once."""

    family: Family
    loss: Loss
    folds: list[Fold]
    axes: Axes
    deadline: float = math.inf
    tried: dict[Setting, tuple[float, int]] = field(default_factory=dict)  #: held-out error, and rank of W
    seconds: dict[Setting, float] = field(default_factory=dict)
    stopped: bool = False
    _starts: dict[tuple[str, int], tuple[float, list[Fitted]]] = field(default_factory=dict)
    _squares: dict[int, PooledSquares | None] = field(default_factory=dict)

    @property
    def thorough(self) -> bool:
        """Whether the ridges are varied with C and rank; with many rows they hardly matter."""
        return len(self.folds) > 1

    def error(self, setting: Setting) -> float:
        """The mean loss of held-out rows; infinite if there is no time left."""
        if setting not in self.tried:
            if self.stopped or time.perf_counter() > self.deadline or current_interrupt().ends_soon:
                self.stopped = True
                return math.inf
            began = time.perf_counter()
            try:
                self.tried[setting] = self._error(setting)
            except Stopped:
                self.stopped = True
                return math.inf
            self.seconds[setting] = time.perf_counter() - began
            what = f"rank {setting.rank}" if setting.task_part == LOW_RANK else f"task part {setting.task_part}"
            logger.info(f"tried {what}  C {setting.C:.4g}  held-out error {self.tried[setting][0]:.6g}")
        return self.tried[setting][0]

    def _error(self, setting: Setting) -> tuple[float, int]:
        total = weight = 0.0
        rank, fits = 0, []
        for k, fold in enumerate(self.folds):
            left = None if math.isinf(self.deadline) else max(self.deadline - time.perf_counter(), 1e-3)
            fitted = self._fit(setting, k, left)
            fits.append(fitted)
            if setting.task_part == LOW_RANK:
                rank = max(rank, fitted.rank())
            with np.errstate(over="ignore", invalid="ignore"):
                loss, of = fold.loss(self.loss, fitted.predict(fold.held, self.family.n_threads))
            total, weight = total + loss, weight + of
        error = total / weight
        for key in ((setting.task_part, setting.rank), (setting.task_part, -1)):
            if error < self._starts.get(key, (math.inf, fits))[0]:
                self._starts[key] = error, fits
        return (error if math.isfinite(error) else math.inf), rank

    def _fit(self, setting: Setting, k: int, max_time: float | None) -> Fitted:
        """The fit to what fold k leaves, from the best fit of the same rank, or else of any."""
        data, (d, T) = self.folds[k].train, self.folds[k].train.shape
        if setting.task_part == NONE and self.family.located and self.family.loss.quadratic and d <= WIDEST:
            squares = self._squares.setdefault(k, None) or PooledSquares(data)
            self._squares[k] = squares
            effects = squares.effects(setting.common, setting.intercepts, self.family.fit_intercept)
            return Fitted(np.zeros((d, 1)), np.zeros((T, 1)), effects, None)
        kind, none = setting.task_part, (math.inf, None)
        starts = self._starts.get((kind, setting.rank), self._starts.get((kind, -1), none))[1]
        return self.family.fit(setting, data, None if starts is None else starts[k], max_time)

    def held_out(self, setting: Setting) -> HeldOut | None:
        """The errors of held-out rows, with leverages; None if there is no time left."""
        found: list[HeldOut] = []
        for k, fold in enumerate(self.folds):
            left = self.deadline - time.perf_counter()
            if self.stopped or left <= 0 or current_interrupt().ends_soon:
                return None
            try:
                fitted = self._fit(setting, k, None if math.isinf(left) else left)
                found.append(fold.held_out(fitted, self.family.ridges(setting), self.family.n_threads))
            except Stopped:
                return None
        return HeldOut.joined(found)

    def best(self, settings: Sequence[Setting]) -> Setting:
        """The one of the least error, the first of equal ones."""
        return min(settings, key=self.error)

    def path(self, setting: Setting, name: str, values: Values) -> Setting:
        """The best of several values in order; it ends after one that is clearly worse, or two that are worse."""
        found, worse = None, 0
        for value in values:
            trial = replace(setting, **{name: value})
            error = self.error(trial)
            if found is None or error < self.error(found):
                found, worse = trial, 0
            else:
                worse += PATIENCE if error > (1.0 + CLEARLY) * self.error(found) else 1
            if worse >= PATIENCE or self.stopped:
                break
        return setting if found is None else found

    def walk(self, setting: Setting, name: str, steps: Sequence[int] = (2, 1)) -> Setting:
        """Move to better neighbours along one axis while there are any."""
        values = list(self.axes.of(name))
        if getattr(setting, name) not in values:
            return setting
        for step in steps:
            for direction in (step, -step):
                moved = False
                while not self.stopped:
                    at = values.index(getattr(setting, name)) + direction
                    if not 0 <= at < len(values):
                        break
                    trial = replace(setting, **{name: values[at]})
                    if not self.error(trial) < (1.0 - NOTICEABLE) * self.error(setting):
                        break
                    setting, moved = trial, True
                if moved:
                    break
        return setting

    # ---- one kind of model after the other ---------------------------------------------------------------------------

    def pooled(self) -> Setting:
        """One model for all tasks, with intercepts of the tasks."""
        start = Setting(NONE, middle(self.axes.C), 0, near(self.axes.common, 1.0), near(self.axes.intercepts, 1.0))
        found = self.walk(start, "intercepts")
        found = self.walk(found, "common")
        return self.walk(found, "intercepts", (1,))

    def by_task(self) -> Setting:
        """A ridge for every task, the same for all, and intercepts that are hardly shrunk."""
        start = Setting(RIDGE, self.axes.C[0], self.axes.full_rank, None, self.axes.intercepts[0])
        return self.path(start, "C", some(self.axes.C, PATH))

    def ridge(self, by_task: Setting, pooled: Setting) -> Setting:
        """A ridge for what every task adds to the common model."""
        starts = [by_task, replace(by_task, common=pooled.common, intercepts=pooled.intercepts)]
        found = self.best(starts)
        if not self.thorough:
            return self.walk(found, "C", (2,))
        for steps in ((2, 1), (1,)):
            for name in ("C", "intercepts", "common"):
                found = self.walk(found, name, steps)
        return self.between(found)

    def low_rank(self, others: Sequence[Setting]) -> Setting:
        """Low rank around the common model."""
        axes = self.axes
        rank = near(axes.rank, FIRST_RANK if self.thorough else FIRST_OF_MANY)
        starts = [replace(s, task_part=LOW_RANK, rank=rank, C=axes.C[0]) for s in others]
        found = self.path(starts[0], "C", some(axes.C, PATH))
        found = self.best([found, *(replace(s, C=found.C) for s in starts[1:])])
        while self.binding(found) and found.rank < max(axes.rank):
            more = replace(found, rank=min(r for r in axes.rank if r > found.rank))
            if not self.error(more) < (1.0 - NOTICEABLE) * self.error(found):
                break
            found = more
        found = self.walk(found, "C", (1,))
        if self.thorough:
            found = self.walk(found, "intercepts")
        if (fewer := self.fewer(found)) != found:
            found = self.walk(self.walk(fewer, "C", (1,)), "rank", (1,))
        for name in ("common", "intercepts", "C") if self.thorough else ():
            found = self.walk(found, name, (1,))
        return self.between(found)

    def binding(self, setting: Setting) -> bool:
        """Whether W has as large a rank as it may have."""
        return self.tried.get(setting, (0.0, 0))[1] == setting.rank

    def fewer(self, setting: Setting) -> Setting:
        """The smallest rank that predicts as well, or better."""
        used = self.tried.get(setting, (0.0, 0))[1]
        found, least, worse = setting, self.error(setting), 0
        for rank in reversed([r for r in self.axes.rank if r < used]):
            trial = replace(setting, rank=rank)
            error = self.error(trial)
            if error <= (1.0 + NOTICEABLE) * least:
                found, worse = trial, 0
            else:
                worse += PATIENCE if error > (1.0 + CLEARLY) * least else 1
            least = min(least, error)
            if worse >= PATIENCE or self.stopped:
                break
        return found

    def between(self, setting: Setting) -> Setting:
        """The same with C at the lowest point of the parabola through the errors of neighbouring C, if it is better."""
        values = list(self.axes.C)
        at = values.index(setting.C) if setting.C in values else 0
        if not 0 < at < len(values) - 1:
            return setting
        near = [self.tried.get(replace(setting, C=values[k]), (math.inf, 0))[0] for k in (at - 1, at, at + 1)]
        bend = near[0] - 2.0 * near[1] + near[2]
        if not (math.isfinite(bend) and bend > 0):
            return setting
        shift = 0.5 * (near[0] - near[2]) / bend
        return self.best([setting, replace(setting, C=setting.C * 10.0 ** (shift / STEPS))])

    def table(self) -> dict[str, NDArray[Any]]:
        """All settings that were tried, in order, with their held-out errors."""
        rows = list(self.tried.items())
        numbers = {
            "C": [s.C for s, _ in rows],
            "common": [math.inf if s.common is None else s.common for s, _ in rows],
            "intercepts": [math.inf if s.intercepts is None else s.intercepts for s, _ in rows],
            "error": [error for _, (error, _) in rows],
            "seconds": [self.seconds[s] for s, _ in rows],
        }
        table: dict[str, NDArray[Any]] = {"task_part": np.array([s.task_part for s, _ in rows], dtype=str)}
        table |= {"rank": np.array([s.rank for s, _ in rows], dtype=np.int64)}
        return table | {name: np.array(values, dtype=np.float64) for name, values in numbers.items()}


def middle(values: Values) -> float:
    found = values[len(values) // 2]
    assert found is not None
    return float(found)


def near(values: Values, wanted: float) -> Any:
    """The largest value that is at most `wanted`; the first one if there is none."""
    return next((v for v in reversed(values) if v is not None and v <= wanted), values[0])


def some(values: Values, positions: Sequence[int]) -> Values:
    """The values at these positions; all if there are fewer."""
    return [values[k] for k in positions if k < len(values)] if len(values) > positions[0] else values


def mean_error(folds: list[Fold], loss: Loss, constant: Any) -> float:
    """The held-out error of one number for all rows; `constant` finds it for a fold."""
    sums = [fold.loss(loss, np.full(len(fold.held), constant(fold.train))) for fold in folds]
    return sum(s for s, _ in sums) / sum(w for _, w in sums)


def best_constant(loss: Loss, data: Tasks, n_threads: int) -> float:
    """The best prediction of all rows by one number."""
    plain = Tasks(np.zeros((len(data), 1)), data.values, np.zeros(len(data), dtype=np.int64), weights=data.weights)
    return effects_alone(Problem(loss, plain, C=1.0, location=Location()), n_threads).mean
