"""A search for settings by rankings that goes on after an interruption.

Every trial follows from the data, the seed, the scores of the trials before it and the best point of each rank. So the
file has all scores and these points: a search that knows them takes the same decisions at once, and continues after the
last trial.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from rslm.checkpoint.file import FOUND, SEARCH, damaged
from rslm.checkpoint.fingerprint import TO_FIND, Settings, settings_of
from rslm.data import parts
from rslm.estimators.automatic.search_file import SearchFile
from rslm.estimators.implicit.layout import ImplicitLayout
from rslm.estimators.implicit.ranking import Metric
from rslm.estimators.implicit.search import Asked, Found, Search, Setting, found_settings, layout_of
from rslm.runtime.interrupts import Interrupt
from rslm.runtime.log import logger
from rslm.runtime.magnitudes import LARGEST, LEAST
from rslm.runtime.types import Floats
from rslm.solvers.loop import Callback
from rslm.storage.container import Arrays, Facts

TRIALS, START = f"{SEARCH}_trials", f"{SEARCH}_start"
NUMBERS = ("rank", "C", "alpha0", "weighting")  # of a setting
COLUMNS = (*NUMBERS, "score", "seconds")  # of the trials
COMPARED = ("popularity", "model")


def search_settings(data: Any, asked: Asked, metric: str, solver: str, tol: float, random_state: object) -> Settings:
    """The settings that must be the same when a fit that searches continues from a checkpoint."""
    rank, C, alpha0, weighting = asked.rank or 1, asked.C or 1.0, asked.alpha0 or 1.0, asked.weighting or 0.0
    problem = layout_of(data, Setting(rank, C, alpha0, weighting)).problem()
    settings = settings_of(problem, rank, solver, tol, random_state)
    to_find = [name for name in NUMBERS if getattr(asked, name) is None]
    return settings | {TO_FIND: ", ".join(to_find), "metric": metric}


class RankingSearchFile(SearchFile):
    """The file of a fit during its search by rankings."""

    def __init__(self, path: str | os.PathLike[str], settings: Settings, seed: int) -> None:
        self.found: Found | None = None  #: if the search has ended
        self.trials: list[dict[str, float]] = []  #: that are known, without one that was cut short
        self.starts: dict[int, Floats] = {}  #: after the last of them
        super().__init__(path, settings, seed)

    def note(self, *, last: bool = False) -> None:
        """Write the trials and the best points, if the last write was long enough ago or there will be no other."""

        def state() -> tuple[Facts, Arrays]:
            table = np.array([[row[name] for name in COLUMNS] for row in self.trials]).reshape(-1, len(COLUMNS))
            points = {f"{START}_{rank}": U for rank, U in self.starts.items()}
            return {"ranks": list(self.starts)}, {TRIALS: table} | points

        self._write_at_times(state, last)

    def end(self, found: Found) -> None:
        """Write what was found in place of the points; without a path, there was nothing to compare settings by."""
        trials = np.empty((0, len(COLUMNS)))
        if found.path is not None:
            trials = np.column_stack([found.path[name] for name in COLUMNS])
        setting = {name: float(getattr(found.setting, name)) for name in NUMBERS}
        start = {} if found.start is None else {START: found.start}
        self._write({FOUND: setting, "held_out": found.held_out}, {TRIALS: trials} | start)

    def _unpack(self, facts: Any, arrays: Arrays) -> None:
        trials = parts.floats(arrays, TRIALS, None, len(COLUMNS))
        if FOUND in facts:
            self.found = Found(_setting(facts[FOUND]))
            if len(trials):
                start = parts.floats(arrays, START, None, None) if START in arrays else None
                held_out = {name: parts.number(facts["held_out"], name) for name in COMPARED}
                path = dict(zip(COLUMNS, trials.T.copy(), strict=True))
                self.found = replace(self.found, path=path, held_out=held_out, start=start)
            return
        self.trials = [dict(zip(COLUMNS, row, strict=True)) for row in trials.tolist()]
        ranks = [parts.whole(facts["ranks"], k, 1) for k in range(len(facts["ranks"]))]
        self.starts = {rank: parts.floats(arrays, f"{START}_{rank}", None, rank) for rank in ranks}
        if self.trials:
            logger.info("resuming the search of %s: %d settings are known", self.path, len(self.trials))


def _setting(numbers: Any) -> Setting:
    rank = int(parts.number(numbers, "rank", least=1.0))
    C, alpha0 = (parts.number(numbers, name, least=LEAST, most=LARGEST) for name in ("C", "alpha0"))
    return Setting(rank, C, alpha0, parts.number(numbers, "weighting"))


@dataclass
class ResumableSearch(Search):
    """A search that writes a checkpoint after its trials, and knows those in it."""

    file: RankingSearchFile = field(kw_only=True)

    def tried(self, setting: Setting) -> float:
        known = self.file.trials[len(self.path) :]
        if known:
            if any(known[0][name] != float(getattr(setting, name)) for name in NUMBERS):
                raise damaged(self.file.path, TRIALS)
            self.path.append(known[0])
            if len(known) == 1:
                self.starts |= self.file.starts
            return known[0]["score"]
        score = super().tried(setting)
        if not self.over():
            self.file.trials, self.file.starts = list(self.path), dict(self.starts)
            self.file.note()
        return score


def resumed_settings(
    file: RankingSearchFile,
    data: Any,
    asked: Asked,
    metric: Metric,
    n_threads: int,
    interrupt: Interrupt,
    deadline: float,
    callback: Callable[[ImplicitLayout], Callback | None],
) -> Found:
    """What `found_settings` finds, with a checkpoint."""
    if file.found is not None:
        return file.found
    file.note()  # the seed, before anything depends on it
    kind = partial(ResumableSearch, file=file)
    found = found_settings(data, asked, metric, n_threads, file.seed, interrupt, deadline, callback, kind)
    if found.complete:
        file.end(found)
    else:
        file.note(last=True)
    return found
