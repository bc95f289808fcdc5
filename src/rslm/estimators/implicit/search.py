"""Settings by the ranking of held-out items.

A tenth of the items of every user is held out, and settings are compared by how a fit to the others ranks them. First
C, then α₀, are moved up and down by constant factors as long as that improves the metric; then other weightings are
tried, and C once more in smaller steps. Last, the rank is doubled as long as it improves the metric by half a per cent,
each time with C as it is and with a smaller one. All fits are rough, and start from the best one so far of the same
rank. Of more than 2 million entries, whole users are sampled, and C is corrected for their number. With many items, the
held-out items of some of these users are ranked.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from rslm.data import ObservedMatrix
from rslm.estimators.automatic.sample import ENTRIES, C_of_more_rows, sampled_rows
from rslm.estimators.completion.observed_input import on_cluster
from rslm.estimators.implicit.distributed_layout import DistributedImplicitLayout
from rslm.estimators.implicit.layout import ImplicitLayout
from rslm.estimators.implicit.ranking import Metric, popularity
from rslm.evaluate import holdout_per_user
from rslm.losses import Square
from rslm.runtime.interrupts import Interrupt
from rslm.runtime.log import logger
from rslm.runtime.types import Floats, Indices64
from rslm.solvers import Outcome, solve
from rslm.solvers.loop import Callback
from rslm.solvers.stopping import LEAST_TIME

PER_SIZE = 0.05  # C, relative to √(n_users · n_items) / the mean confidence
PER_CONFIDENCE = 0.2  # α₀, relative to the mean confidence
FIRST_RANK, LAST_RANK = 32, 256
HELD_OUT = 0.1  # of the items of a user: they are zeros in a trial, and more of them would make the best α₀ too small
OF_C, FINER_OF_C, OF_ALPHA0, LESS_C = 3.0, 1.7, 2.5, 0.6  # factors from one trial to the next
WEIGHTINGS = (0.5, 0.0, 1.0)  # in the order in which they are tried
SQUARE = Square()
MOST_MOVES = 4  # in one direction
SCORES = 200_000_000  # of users times items, that are ranked in a trial: some seconds
BETTER, BETTER_RANK = 2e-3, 5e-3  # relative improvements that count; smaller ones are within the noise of 6,000 users
ROUGH, MOST_STEPS = 1e-2, 40  # tolerance and iterations of a trial


@dataclass(frozen=True)
class Setting:
    """What is searched for."""

    rank: int
    C: float
    alpha0: float
    weighting: float


@dataclass(frozen=True)
class Asked:
    """Numbers where they were given; None where they have to be found."""

    rank: int | None
    C: float | None
    alpha0: float | None
    weighting: float | None

    @property
    def searches(self) -> bool:
        return None in (self.rank, self.C, self.alpha0, self.weighting)

    def first(self, data: ObservedMatrix) -> Setting:
        """What was given, and usual values of the rest."""
        n, m = data.shape
        confidence = 1.0 if data.weights is None else float(data.weights.mean())
        usual_C = PER_SIZE * float(np.sqrt(n * m)) / confidence
        return Setting(
            min(FIRST_RANK, n, m) if self.rank is None else self.rank,
            usual_C if self.C is None else self.C,
            PER_CONFIDENCE * confidence if self.alpha0 is None else self.alpha0,
            WEIGHTINGS[0] if self.weighting is None else self.weighting,
        )

    @property
    def given(self) -> Setting:
        """What was given, if that is everything."""
        assert not self.searches
        return Setting(self.rank, self.C, self.alpha0, self.weighting)  # type: ignore[arg-type]


@dataclass
class Search:
    """Compares settings by held-out items."""

    train: ObservedMatrix
    held_out: ObservedMatrix
    ranked: Indices64  #: the users by whose held-out items settings are compared
    metric: Metric
    n_threads: int
    seed: int
    interrupt: Interrupt
    deadline: float  #: on the clock of `time.perf_counter`; infinite for none
    callback: Callable[[ImplicitLayout], Callback | None] = lambda layout: None  #: of the solver of a trial
    score: float = -1.0  #: of the best setting so far
    popularity: float = math.nan  #: the metric of the most popular items
    path: list[dict[str, float]] = field(default_factory=list)
    starts: dict[int, Floats] = field(default_factory=dict)  #: the best U of every rank

    def over(self) -> bool:
        """Whether the search has to end."""
        return self.interrupt.pending or time.perf_counter() >= self.deadline

    def of_popularity(self) -> float:
        """The metric of recommending to everyone what most users took."""
        return self.of_factors(*popularity(self.train))

    def of_factors(self, users: Floats, items: Floats) -> float:
        """The metric of these factors of all users and items."""
        return self.metric.score(users[self.ranked], items, *self._of_ranked)

    @cached_property
    def _of_ranked(self) -> tuple[ObservedMatrix, ObservedMatrix]:
        """What the ranked users are known to have taken, and what was held out."""
        return self.train.some_rows(self.ranked), self.held_out.some_rows(self.ranked)

    def tried(self, setting: Setting) -> float:
        """The metric of a rough fit with this setting; −1 if there was no time for it."""
        began = time.perf_counter()
        layout = layout_of(self.train, setting)
        result = solve(
            layout.problem(),
            setting.rank,
            tol=ROUGH,
            max_iter=MOST_STEPS,
            max_time=None if math.isinf(self.deadline) else max(self.deadline - began, LEAST_TIME),
            start=self.starts.get(setting.rank),
            random_state=self.seed,
            n_threads=self.n_threads,
            certificate=False,
            callback=self.callback(layout),
        )
        self.interrupt.pending |= result.outcome is Outcome.INTERRUPTED  # a callback may have stopped it
        if self.over():  # it was cut short, and cannot be compared with others
            self.starts.setdefault(setting.rank, result.U)
            return -1.0
        model = layout.model(result.U, result.V, 0.0)
        score = self.of_factors(model["row_factors_"], model["col_factors_"])
        if score > self.score or setting.rank not in self.starts:
            self.starts[setting.rank] = result.U
        seconds = time.perf_counter() - began
        self.path.append({**vars(setting), "score": score, "seconds": seconds})
        logger.info(
            f"rank {setting.rank}  C {setting.C:.3g}  alpha0 {setting.alpha0:.3g}  weighting {setting.weighting:g}  "
            f"{self.metric.name}@{self.metric.k} {score:.4f}  {seconds:.2f} s"
        )
        return score

    def improved(self, setting: Setting, candidates: Iterator[Setting], least: float = BETTER) -> Setting:
        """The best of a setting and its candidates, up to the first one that is no better."""
        for candidate in candidates:
            if self.over():
                break
            score = self.tried(candidate)
            if not score > self.score * (1.0 + least):
                break
            self.score, setting = score, candidate
        return setting

    def best(self, asked: Asked, first: Setting) -> Setting:
        """The best setting, found one number at a time; numbers that were given stay as they are."""
        found = first
        self.popularity = self.of_popularity() if not self.over() else math.nan
        self.score = self.tried(found)
        for name, factor in (("C", OF_C), ("alpha0", OF_ALPHA0)):
            if getattr(asked, name) is None:
                found = self._moved(found, name, factor)
        if asked.weighting is None:
            for weighting in WEIGHTINGS[1:]:
                found = self.improved(found, iter([replace(found, weighting=weighting)]))
        if asked.C is None:
            found = self._moved(found, "C", FINER_OF_C)
        if asked.rank is None:
            found = self._of_larger_rank(found, asked)
        return found

    def _moved(self, setting: Setting, name: str, factor: float) -> Setting:
        """The best of what is larger or smaller by powers of a factor."""
        for step in (factor, 1.0 / factor):
            numbers = (getattr(setting, name) * step**n for n in range(1, MOST_MOVES + 1))
            moved = self.improved(setting, (replace(setting, **{name: number}) for number in numbers))
            if moved is not setting:
                return moved
        return setting

    def _of_larger_rank(self, setting: Setting, asked: Asked) -> Setting:
        most = min(LAST_RANK, *self.train.shape)
        while setting.rank < most and not self.over():
            before, larger = setting, replace(setting, rank=min(2 * setting.rank, most))
            candidates = [larger] if asked.C is not None else [larger, replace(larger, C=LESS_C * larger.C)]
            for candidate in candidates:
                setting = self.improved(setting, iter([candidate]), BETTER_RANK if setting is before else BETTER)
            if setting is before:
                break
        return setting


@dataclass(frozen=True)
class Found:
    """The settings for a fit to all data, and what was tried."""

    setting: Setting
    path: dict[str, Floats] | None = None
    held_out: dict[str, float] | None = None  #: the metric of "popularity" and of the "model"
    start: Floats | None = None  #: U of the best trial
    complete: bool = True  #: whether the search has ended, and was not stopped


def found_settings(
    data: Any,
    asked: Asked,
    metric: Metric,
    n_threads: int,
    seed: int,
    interrupt: Interrupt,
    deadline: float,
    callback: Callable[[ImplicitLayout], Callback | None],
    kind: Callable[..., Search] = Search,
) -> Found:
    """What was given, or else what ranks held-out items best; the search ends at the `deadline`, on a clock.

    The `data` are in this process, an ObservedMatrix, or on workers, a DistributedMatrix.
    """
    if not asked.searches:
        return Found(asked.given)
    rows = sampled_rows(data.row_counts(), ENTRIES)
    sample: ObservedMatrix = data.some_rows(rows)
    # The best C of all users, relative to that of the sample.
    more = C_of_more_rows(data.shape[1], data.shape[0], sample.shape[0])
    first = asked.first(sample)

    def of_all(setting: Setting) -> Setting:
        return replace(setting, C=more * setting.C if asked.C is None else asked.C)

    if sample.row_counts().max(initial=0) < 2:  # no user took two items
        return Found(of_all(first))
    train, held_out = holdout_per_user(sample, HELD_OUT, np.random.default_rng(seed))
    search = kind(train, held_out, ranked_users(held_out), metric, n_threads, seed, interrupt, deadline, callback)
    setting = search.best(asked, first if asked.C is None else replace(first, C=asked.C / more))
    if not search.path:  # there was no time for any trial
        return Found(of_all(first), start=search.starts.get(first.rank), complete=False)
    compared = {"popularity": search.popularity, "model": search.score}
    path = {name: np.array([float(trial[name]) for trial in search.path]) for name in search.path[0]}
    return Found(of_all(setting), path, compared, search.starts.get(setting.rank), not search.over())


def ranked_users(held_out: ObservedMatrix) -> Indices64:
    """The users with held-out items, or some of them at random, so that at most `SCORES` items are ranked."""
    users = np.flatnonzero(held_out.row_counts())
    most = max(SCORES // held_out.shape[1], 1)
    return users if len(users) <= most else np.sort(np.random.default_rng(0).permutation(users)[:most])


def layout_of(data: Any, setting: Setting) -> ImplicitLayout:
    """How these data, in this process or on workers, become a problem with this setting."""
    kind = DistributedImplicitLayout if on_cluster(data) else ImplicitLayout
    return kind(data, SQUARE, setting.C, setting.weighting, alpha0=setting.alpha0)
