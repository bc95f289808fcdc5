"""The settings of a fit. Those that the user does not give are chosen by how well held-out rows are predicted."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data.splits import Seed, as_generator
from rslm.estimators.choices import is_auto, is_whole
from rslm.estimators.tasks.family import LOW_RANK, NONE, Family, Setting
from rslm.estimators.tasks.folds import Fold, folds_of
from rslm.estimators.tasks.intervals import HeldOut
from rslm.estimators.tasks.search import (
    BY_TASK,
    CHOSEN,
    COMMON,
    CS,
    ENOUGH,
    INTERCEPTS,
    POOLED,
    RANKS,
    SIMPLER,
    THE_MEAN,
    Axes,
    Search,
    Values,
    best_constant,
    mean_error,
)
from rslm.kernels import Stopped
from rslm.losses import Loss
from rslm.measurements import Tasks
from rslm.runtime.log import logger
from rslm.runtime.types import Indices64

SEED = 0  # of the held-out rows without a random_state: the same data have the same answer
USUAL_C, USUAL_RANK, USUAL_RIDGE = 10.0, 5, 1.0  # where nothing can be held out
PART_OF_TIME = 0.5  # of max_time, for the search

Effects = tuple[float | None, float | None] | None


@dataclass(frozen=True, eq=False)
class Choice:
    """A setting, and how it was found."""

    setting: Setting
    path: dict[str, NDArray[Any]] | None = None  #: None if there was nothing to find, or nothing to hold out
    held_out: dict[str, float] | None = None
    errors: HeldOut | None = None  #: of held-out rows; None where there is no time for them, or for classes

    def in_units(self, loss: Loss, scale: float) -> Choice:
        """With errors for targets that are `scale` times as large: root mean squares if the loss is quadratic."""
        if self.path is None or self.held_out is None:
            return self
        curved = loss.interval is not None and loss.interval.rounding > 0  # Huber's, with δ in the same unit

        def shown(error: Any) -> Any:
            with np.errstate(over="ignore"):
                return scale * np.sqrt(error) if loss.quadratic else scale * (scale if curved else 1.0) * error

        path = self.path | {"error": shown(self.path["error"])}
        held_out = {name: float(shown(error)) for name, error in self.held_out.items()}
        return replace(self, path=path, held_out=held_out)


@dataclass(frozen=True)
class Asked:
    """The settings that the user has given; None for those that have to be found."""

    rank: int | None
    C: float | None
    ridges: Effects  #: of common coefficients and intercepts
    only_low_rank: bool  #: whether a ridge for every task is no answer

    def axes(self, family: Family, shape: tuple[int, int], per_task: float, largest_rank: int) -> Axes:
        unit = 1.0 / max(family.curvature * per_task, np.finfo(float).tiny)  # tiny losses of huge data
        largest = min(*shape, largest_rank)
        ranks: Values = (
            [*(r for r in RANKS if r < largest), largest] if self.rank is None else [min(self.rank, largest)]
        )
        common, intercepts = (COMMON, INTERCEPTS) if self.ridges is None else ([self.ridges[0]], [self.ridges[1]])
        return Axes(
            [unit * c for c in CS] if self.C is None else [self.C],
            ranks,
            common if family.located else [None],
            intercepts if family.located and family.fit_intercept else [None],
            min(shape),
        )

    @property
    def all_given(self) -> bool:
        return self.rank is not None and self.C is not None and self.ridges is not None


def choose(
    asked: Asked,
    family: Family,
    data: Tasks,
    strata: Indices64,
    random_state: Seed,
    largest_rank: int,
    max_time: float | None,
    began: float,
) -> Choice:
    """The setting that predicts held-out rows best, among all that agree with what was given."""
    weight = float(len(data)) if data.weights is None else float(data.weights.sum())
    axes = asked.axes(family, data.shape, weight / data.shape[1], largest_rank)
    if asked.all_given or all(len(axes.of(name)) == 1 for name in ("C", "rank", "common", "intercepts")):
        return Choice(_usual(axes, asked, family, data.shape[1]))
    folds = folds_of(data, strata, as_generator(SEED if random_state is None else random_state), family.loss.quadratic)
    if not folds:
        return Choice(_usual(axes, asked, family, data.shape[1]))
    deadline = math.inf if max_time is None else began + PART_OF_TIME * max_time
    search = Search(family.smooth(data.values), family.loss, folds, axes, deadline)
    try:
        of_mean = mean_error(folds, family.loss, lambda part: best_constant(search.family.loss, part, family.n_threads))
    except Stopped:
        return Choice(_usual(axes, asked, family, data.shape[1]))
    return _searched(search, asked, folds, of_mean, data.shape[1])


def _searched(search: Search, asked: Asked, folds: list[Fold], of_mean: float, tasks: int) -> Choice:
    family, axes = search.family, search.axes
    began, held_out = time.perf_counter(), {THE_MEAN: of_mean}
    simplest_first: list[Setting] = []
    usual = _usual(axes, asked, family, tasks)
    if family.located:
        pooled = search.pooled()
        held_out[POOLED] = search.error(pooled)
        if asked.rank is None:
            simplest_first.append(pooled)
    enough = min(held_out.values()) <= ENOUGH * max(of_mean, np.finfo(float).tiny) or (family.located and tasks == 1)
    if not (enough and simplest_first) and not search.stopped:
        others = [pooled] if family.located else [usual]
        if not asked.only_low_rank:
            by_task = search.by_task()
            held_out[BY_TASK] = search.error(by_task)
            ridge = search.ridge(by_task, others[0])
            others.append(ridge)
        simplest_first.append(search.low_rank(others))
        if not asked.only_low_rank:
            simplest_first.append(ridge)
    known = [setting for setting in simplest_first if setting in search.tried]
    if not known:
        return Choice(usual)
    best = min(search.error(setting) for setting in known)
    setting = next(s for s in known if search.error(s) <= (1.0 + SIMPLER) * best)
    held_out[CHOSEN] = search.error(setting)
    logger.info(
        "%d settings compared on held-out rows in %.2f s; %s", len(search.tried), time.perf_counter() - began, setting
    )
    finite = {name: e for name, e in held_out.items() if math.isfinite(e)}
    return Choice(setting, search.table(), finite, None if search.loss.binary else search.held_out(setting))


def _usual(axes: Axes, asked: Asked, family: Family, tasks: int) -> Setting:
    """The settings that were given, and usual values for the others."""
    C = axes.C[0] if len(axes.C) == 1 else USUAL_C * axes.C[0] / CS[0]
    common, intercepts = (values[0] if len(values) == 1 else USUAL_RIDGE for values in (axes.common, axes.intercepts))
    setting = Setting(LOW_RANK, float(C), 1, common, intercepts)
    if family.located and asked.rank is None:
        return replace(setting, task_part=NONE, rank=0)
    rank = axes.rank[0] if len(axes.rank) == 1 else min(USUAL_RANK, axes.full_rank)
    return replace(setting, rank=int(rank))


def checked_effects(given: Any) -> tuple[bool, Effects]:
    """Whether there are effects, and their ridges if they were given."""
    if given is None or is_auto(given):
        return given is not None, None
    ridges = list(given) if isinstance(given, list | tuple) else []
    if len(ridges) != 2 or not all(_is_ridge(ridge) for ridge in ridges):
        raise ValueError(
            f'effects must be "auto", None, or two ridges (of the common coefficients, of the intercepts), each ≥ 0, '
            f"or None for no such part; got {given!r}"
        )
    common, intercepts = (None if ridge is None or math.isinf(ridge) else float(ridge) for ridge in ridges)
    return True, (common, intercepts)


def _is_ridge(value: Any) -> bool:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return value is None or (number and value >= 0)


def checked_rank(given: Any) -> int | None:
    """The rank; None if it has to be found."""
    if is_auto(given):
        return None
    if not is_whole(given, least=1):
        raise ValueError(f'rank must be a whole number ≥ 1; got {given!r}. Or "auto"')
    return int(given)
