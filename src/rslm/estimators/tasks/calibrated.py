"""Linear models of tasks with intervals of their predictions: what a fit keeps for them, and what a file holds."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from rslm.estimators.base import Estimator
from rslm.estimators.choices import is_auto
from rslm.estimators.tasks.automatic import Choice
from rslm.estimators.tasks.family import Family
from rslm.estimators.tasks.intervals import HeldOut, Intervals
from rslm.estimators.tasks.leverage import Leverage
from rslm.estimators.tasks.units import Units
from rslm.evaluate.intervals import check_coverage, least_scores
from rslm.kernels import Stopped
from rslm.measurements import Tasks
from rslm.runtime.types import Floats, Indices64
from rslm.storage.container import Arrays, Facts


class Calibrated(Estimator):
    """The base of linear models of several tasks: how large their errors are expected to be."""

    coef_: Floats
    _U: Floats
    _units: Units
    _leverage: Leverage | None  # None for classes, and where there was no time
    _intervals: Intervals | None  # None without errors of held-out rows

    def _keep_errors(
        self,
        family: Family,
        choice: Choice,
        data: Tasks,
        scale: Floats,
        stands_for: tuple[float, Floats] | None = None,
    ) -> None:
        """Set what intervals need, for targets that were divided by `scale`; see `_fit_tasks` for `stands_for`."""
        self._leverage = self._intervals = None
        if family.loss.binary:
            return
        if choice.errors is not None:
            found = Intervals.of(choice.errors, data.shape[1])
            self._intervals = None if found is None else found.scaled(scale)
        ridges, (rows, centre) = family.ridges(choice.setting), stands_for or (0.0, None)
        if centre is not None:
            F, middle = data.features.times(self._U, family.n_threads), np.tile(centre @ self._U, (data.shape[1], 1))
            self._leverage = Leverage.of_moments(F.T @ F / rows, middle, np.full(len(middle), rows), ridges)
            return
        with suppress(Stopped):
            self._leverage = Leverage.of(data, self._U, ridges, family.n_threads)

    def _leverages(self, X: Any, rows: Indices64, tasks: Indices64) -> Floats:
        """Of these rows of X, each in its task; 0 if the rows of the fit are not known."""
        if self._leverage is None:
            return np.zeros(len(rows))
        turn = self._U / self._units.size[:, None]
        return self._leverage.at(np.asarray(X @ turn) - self._units.mean @ turn, rows, tasks)

    def _calibrate(self, X: Any, rows: Indices64, tasks: Indices64, errors: Floats) -> None:
        """Set intervals by the errors of rows that the fit has not seen."""
        scale = np.broadcast_to(self._units.scale, len(self.coef_))
        with np.errstate(over="ignore"):
            held = HeldOut(tasks, np.abs(errors) / scale[tasks], self._leverages(X, rows, tasks))
        found = Intervals.of(held, len(self.coef_))
        if found is None:
            raise ValueError(
                "intervals need the errors of rows that fit has not seen, but "
                + ("they are too large for a number; rescale the targets" if len(rows) else "there are no targets")
            )
        self._intervals = found.scaled(scale)

    def _reach(self, X: Any, rows: Indices64, tasks: Indices64, coverage: float) -> Floats:
        """Half the widths of intervals of these rows of X, each in its task."""
        check_coverage(coverage)
        if self._intervals is None:
            why = (
                "there was nothing to hold out, or no time for it"
                if any(is_auto(p) for p in (self.rank, self.C, self.effects))
                else "rank, C and effects were given, so fit has held out no rows"
            )
            raise ValueError(
                f"intervals need the errors of held-out rows, but {why}; call calibrate(…) with rows that fit has not "
                f"seen, at least {least_scores(coverage)} for coverage={coverage:g}"
            )
        return self._intervals.reach(coverage, tasks, self._leverages(X, rows, tasks))

    # ---- files -------------------------------------------------------------------------------------------------------

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        of_rows, ridges = ({}, None) if self._leverage is None else self._leverage.written()
        arrays |= of_rows | ({} if self._intervals is None else self._intervals.written())
        return arrays, facts | {"leverage": ridges}

    def _read_errors(self, arrays: Arrays, facts: Facts) -> None:
        """Earlier files have none."""
        known, tasks = facts.get("leverage"), len(self.coef_)
        self._leverage = None if known is None else Leverage.read(arrays, known, self._U.shape[1], tasks)
        self._intervals = Intervals.read(arrays, tasks) if "noise" in arrays else None
