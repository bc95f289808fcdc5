"""A search for settings that goes on after an interruption: the part of a checkpoint before the fit itself.

A search is a sequence of trials, each of which follows from the data, the seed and the trials before it. So the file
has all trials with their points, and a search that knows them goes through them at once and continues after the last
one. When it has ended, the setting that was found takes their place.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from rslm.checkpoint.file import FOUND, SEARCH
from rslm.checkpoint.fingerprint import Settings
from rslm.data import parts
from rslm.estimators.automatic.search import Search
from rslm.estimators.automatic.search_file import SearchFile
from rslm.estimators.automatic.settings import Found, Setting, Trials
from rslm.estimators.completion.intervals import Intervals
from rslm.runtime.log import logger
from rslm.runtime.types import Floats
from rslm.storage.container import Arrays, Facts

TRIALS, START, NOISE, INTERVALS = (f"{SEARCH}_{name}" for name in ("trials", "start", "noise", "interval_"))
COLUMNS = ("rank", "C", "weighting", "row_effects", "ridges", "noise_units", "error", "seconds")  # of the trials
ERRORS = ("error", "of_mean", "of_effects")


class SearchCheckpoint(SearchFile):
    """The file of a completion during its search."""

    def __init__(self, path: str | os.PathLike[str], settings: Settings, seed: int) -> None:
        self.found: Found | None = None  #: if the search has ended
        self._known: list[tuple[Setting, list[Floats]]] = []
        self._rows: list[dict[str, float]] = []
        super().__init__(path, settings, seed)

    def resume(self, search: Search) -> None:
        """Let a search know the trials in the file."""
        for (setting, points), row in zip(self._known, self._rows, strict=True):
            search.errors[setting], search.points[setting] = row["error"], points
            search.path.rows.append(row)
        if self._known:
            logger.info("resuming the search of %s: %d settings are known", self.path, len(self._known))

    def note(self, search: Search, *, last: bool = False) -> None:
        """Write all trials, if the last write was long enough ago or there will be no other."""

        def state() -> tuple[Facts, Arrays]:
            arrays: Arrays = {TRIALS: _table(search.path)}
            for k, points in enumerate(search.points.values()):
                arrays |= {f"{SEARCH}_point_{k}_{fold}": point for fold, point in enumerate(points)}
            return {"folds": len(search.folds)}, arrays

        self._write_at_times(state, last)

    def end(self, found: Found) -> None:
        """Write what was found in place of the trials."""
        facts: Facts = {name: float(getattr(found, name)) for name in ERRORS}
        facts["alone"] = found.alone
        facts[FOUND] = {name: float(number) for name, number in found.setting.numbers().items()}
        arrays = {TRIALS: _table(found.path), START: found.start, NOISE: found.noise}
        arrays |= {} if found.intervals is None else found.intervals.to_arrays(INTERVALS)
        self._write(facts, {name: array for name, array in arrays.items() if array is not None})

    def _unpack(self, facts: Any, arrays: Arrays) -> None:
        trials = parts.floats(arrays, TRIALS, None, len(COLUMNS), finite=False)
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in trials.tolist()]
        if FOUND in facts:
            given = {name: parts.number(facts[FOUND], name) for name in COLUMNS[:-2]}
            error, of_mean, of_effects = (parts.any_number(facts, name) for name in ERRORS)
            start = parts.floats(arrays, START, None, None) if START in arrays else None
            noise = parts.floats(arrays, NOISE, None) if NOISE in arrays else None
            alone = parts.flag(facts, "alone") if "alone" in facts else False  # in files of older versions it is not
            intervals = Intervals.from_arrays(arrays, (None, None), INTERVALS)
            self.found = Found(
                _setting(given), error, Trials(rows), start, of_mean, of_effects, noise, alone, intervals
            )
            return
        for k, row in enumerate(rows):
            names = [f"{SEARCH}_point_{k}_{fold}" for fold in range(parts.whole(facts, "folds", 1))]
            points = [parts.floats(arrays, name, None, None) for name in names]
            self._known.append((_setting(row), points))
        self._rows = rows


def _table(trials: Trials) -> Floats:
    return np.array([[row[name] for name in COLUMNS] for row in trials.rows]).reshape(-1, len(COLUMNS))


def _setting(numbers: dict[str, float]) -> Setting:
    setting = Setting.of_numbers(numbers)
    if not (setting.C > 0 and setting.rank >= 1 and setting.ridges > 0):
        raise ValueError(FOUND)
    return setting


class ResumableSearch(Search):
    """A search that writes a checkpoint after its trials, and knows those in it."""

    def __init__(self, checkpoint: SearchCheckpoint, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.checkpoint = checkpoint
        checkpoint.resume(self)

    def run(self) -> Found | None:
        if self.checkpoint.found is not None:
            return self.checkpoint.found
        self.checkpoint.note(self)  # the seed, before anything depends on it
        found = super().run()
        if found is None or self.stopped():  # the same call continues the search, and may find something better
            self.checkpoint.note(self, last=True)
            return found
        self.checkpoint.end(found)
        self.checkpoint.found = found
        return found

    def _tried(self, setting: Setting) -> Setting:
        known = setting in self.errors
        super()._tried(setting)
        if not known:
            self.checkpoint.note(self)
        return setting
