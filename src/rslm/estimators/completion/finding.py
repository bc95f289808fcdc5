"""What a completion was asked to find: C, rank and weighting, by held-out entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rslm.checkpoint.fingerprint import TO_FIND, Settings, settings_of
from rslm.estimators.automatic.folds import folds_of
from rslm.estimators.automatic.resumable import ResumableSearch, SearchCheckpoint
from rslm.estimators.automatic.search import Search, stop_when
from rslm.estimators.automatic.settings import Found
from rslm.estimators.completion.asked import Asked
from rslm.estimators.completion.intervals import Intervals
from rslm.estimators.completion.layout import Layout
from rslm.runtime.interrupts import Interrupt
from rslm.runtime.types import Floats
from rslm.solvers.loop import Callback

NO_FACTORS = 1e-6  # C relative to the best one at which W is almost 0, so that effects alone are left


@dataclass(frozen=True)
class Chosen:
    """The layout with all settings, the limit on the rank, where to start, and how the settings were found."""

    layout: Layout
    rank: int
    start: Floats | None = None
    path: dict[str, Floats] | None = None
    held_out: dict[str, float] | None = None
    complete: bool = True  #: whether the search has ended, and was not stopped
    intervals: Intervals | None = None  #: from the errors of held-out entries


@dataclass(frozen=True)
class Finder:
    """How settings are searched; `seed` is that of the held-out entries and of all starts."""

    asked: Asked
    rank: int  #: the rank if it is given, and if nothing can be held out
    seed: int
    n_threads: int
    interrupt: Interrupt
    limit: float | None  #: seconds for the search
    began: float
    callback: Callable[[Layout], Callback | None]
    free_effects: bool  #: whether effects were not given by the user
    free_units: bool = False  #: whether features may be in units of their noise

    def chosen(self, layout: Layout, open_checkpoint: Callable[[], SearchCheckpoint] | None = None) -> Chosen:
        """The settings that predict held-out entries best; those of the layout if nothing can be held out."""
        at, asked, seed = layout.searched, self.asked, self.seed
        folds = folds_of(at.data, np.random.default_rng(seed))
        if not folds:
            return Chosen(layout, self.rank)
        checkpoint = None if open_checkpoint is None else open_checkpoint()
        if checkpoint is not None and checkpoint.seed != seed:
            seed = checkpoint.seed
            folds = folds_of(at.data, np.random.default_rng(seed))
        stopped = stop_when(self.interrupt, self.limit, self.began)
        options: dict[str, Any] = {
            "rank": min(self.rank, *at.data.shape) if asked.fixed else None,
            "C": None if asked.C is None else asked.C / layout.more,
            "weighting": asked.weighting if asked.C is None else layout.weighting,
            "largest_rank": min(at.data.shape),
            "n_threads": self.n_threads,
            "seed": seed,
            "stopped": stopped,
            "callback": self.callback,
            "interrupt": self.interrupt,
            "free_effects": self.free_effects,
            "free_units": self.free_units,
        }
        search = Search(at, folds, **options)
        if checkpoint is not None:
            search = ResumableSearch(checkpoint, at, folds, **options)
        with self.interrupt.within(self.limit, self.began):
            found = search.run()
        if found is None:
            return Chosen(layout, self.rank, complete=False)
        return self._of_all(layout, found, not stopped())

    def _of_all(self, layout: Layout, found: Found, complete: bool) -> Chosen:
        """What was found, for the whole layout."""
        asked, path = self.asked, found.path.table()
        path["C"] *= layout.more
        held_out = {"mean": found.of_mean, "effects": found.of_effects, "model": found.error}
        C = layout.more * found.setting.C if asked.C is None else asked.C
        setting = replace(found.setting, C=C, rank=self.rank if asked.fixed else found.setting.rank)
        # What is known of a sample of the rows says nothing about the others.
        intervals = found.intervals if layout.at_hand else None
        if found.alone:
            held_out["model"] = found.of_effects
            return Chosen(replace(layout, C=NO_FACTORS * C), 0, None, path, held_out, complete, intervals)
        at = setting.applied(layout, found.noise)
        return Chosen(at, setting.rank, found.start, path, held_out, complete, intervals)


def search_settings(layout: Layout, asked: Asked, rank: int, solver: str, tol: float, random_state: object) -> Settings:
    """The settings that must be the same when a fit that searches continues from a checkpoint."""
    settings = settings_of(layout.problem(), rank, solver, tol, random_state)
    names = {"rank": asked.fixed, "C": asked.C is not None, "weighting": asked.weighting is not None}
    return settings | {TO_FIND: ", ".join(name for name, given in names.items() if not given)}
