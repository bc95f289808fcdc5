"""A completion whose predictions are means over draws from a posterior."""

from __future__ import annotations

import time
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from rslm.data import ObservedMatrix, as_generator
from rslm.estimators.callbacks import Reporter
from rslm.estimators.choices import is_whole
from rslm.estimators.completion.averaging.drawing import Drawing
from rslm.estimators.completion.averaging.draws import Draws
from rslm.estimators.completion.imputing import Imputing
from rslm.estimators.completion.layout import Layout
from rslm.estimators.warn import warn_caller
from rslm.kernels import Stopped
from rslm.losses import Loss
from rslm.runtime.interrupts import Interrupt
from rslm.runtime.threads import thread_count
from rslm.runtime.types import Floats
from rslm.solvers import Outcome, Result
from rslm.storage.container import Arrays, Facts

NO_DRAWS = "there are no draws; fit with average=100, say, and time enough for them"


def check_average(average: Any, loss: Loss, bounds: Any, client: Any) -> None:
    """Refuse an `average` that is no number of draws, or that the other settings do not allow."""
    if average is None:
        return
    if not is_whole(average, least=2):
        raise ValueError(f"average must be None or a whole number of draws ≥ 2; got {average!r}")
    if not loss.quadratic:
        raise ValueError(f"average={average} needs normal noise, which is loss='square'; got {loss!r}")
    if bounds is not None:
        raise ValueError(
            f"draws do not satisfy bounds, so average={average} cannot have any; clip the predictions instead"
        )
    if client is not None:
        raise ValueError(f"average={average} needs all entries in this process; leave the client or average out")


class Averaging(Imputing):
    """Completion that continues from the fitted point to draws from a posterior."""

    average: int | None
    _draws: Draws | None = None

    @property
    def n_draws_(self) -> int:
        """The number of draws that predictions are means of; 0 if they are those of one matrix."""
        check_is_fitted(self)
        return 0 if self._draws is None else len(self._draws)

    @property
    def noise_(self) -> float:
        """The root mean square of the drawn sizes of the noise; in units of the features if they were standardised."""
        check_is_fitted(self)
        if self._draws is None:
            raise AttributeError(NO_DRAWS)
        return float(np.sqrt(np.mean(self._draws.noise**2)))

    def predict_spread(self, rows: ArrayLike, cols: ArrayLike) -> Floats:
        """How far the draws of the predictions of the entries (rows[k], cols[k]) are apart: their standard deviations.

        The noise of an entry is not in them: a new observation has the standard deviation
        ``sqrt(predict_spread(rows, cols)**2 + noise_**2)``.

        Parameters
        ----------
        rows, cols : arrays of one length
            Positions, or ids where `fit` was given ids.
        """
        check_is_fitted(self)
        if self._draws is None:
            raise ValueError(NO_DRAWS)
        i, j = self._rows.positions(rows), self._cols.positions(cols)
        if i.shape != j.shape:
            raise ValueError(f"rows and cols must have the same length; got {len(i)} and {len(j)}")
        return self._draws.spread(self.row_factors_, self.col_factors_, i, j, thread_count(self.n_threads))

    # ---- fitting -------------------------------------------------------------------------------------------------

    def _average(
        self, layout: Layout, result: Result, interrupt: Interrupt, max_time: float | None, reporter: Reporter
    ) -> None:
        """Draw from the fitted point on, and keep the mean of the draws that came before a stop."""
        n, began, threads = self.average, time.perf_counter(), thread_count(self.n_threads)
        assert n is not None
        rng = np.random.default_rng(int(as_generator(self.random_state).integers(2**63)))
        found, stopped = None, None
        with interrupt.within(max_time, began):
            try:
                drawing = Drawing(layout, result, rng, threads)
                found = drawing.collected
                while len(found) < n and stopped is None:
                    if interrupt.ends_soon:
                        raise Stopped
                    drawing.draw()
                    if reporter.drawn(len(found), n, drawing.noise, time.perf_counter() - began, found.model):
                        stopped = Outcome.INTERRUPTED
            except Stopped:  # within a step of the chain, which is then not kept
                stopped = Outcome.INTERRUPTED if interrupt.pressed else Outcome.TIME
        if stopped is not None:
            self.outcome_, self.converged_ = stopped.value, False
            warn_caller(
                f"the fit was stopped after {0 if found is None else len(found)} of average={n} draws; predictions are "
                + ("means of these" if found else "those of the fitted matrix"),
                ConvergenceWarning,
            )
        if found:
            self._set(found.model())
            self.residuals_ = self._residuals(layout.data)

    # ---- predictions ---------------------------------------------------------------------------------------------

    def _folded(self, data: ObservedMatrix, row_features: Any = None) -> tuple[Floats, Floats]:
        if self._draws is None:
            return super()._folded(data, row_features)
        threads, units = thread_count(self.n_threads), self._subspace.units
        codes, effects = self._draws.fold_in(data, self.col_factors_, units, threads)
        return np.column_stack([codes, effects, np.ones(len(codes))]), self._right

    def _left_out(self, data: ObservedMatrix, row_features: Any) -> Floats:
        if self._draws is None:
            return super()._left_out(data, row_features)
        return self._draws.left_out(data, self.col_factors_, self._subspace.units, thread_count(self.n_threads))

    @property
    def _attributes(self) -> dict[str, Any]:
        """With the factors of one draw, by which leverages are computed: all draws have similar ones."""
        known = super()._attributes
        if self._draws is None:
            return known
        return known | {"_one_draw": tuple(self._draws.last(side) for side in (self.row_factors_, self.col_factors_))}

    # ---- files ---------------------------------------------------------------------------------------------------

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        return arrays | ({} if self._draws is None else self._draws.to_arrays()), facts

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = super()._from_file(params, arrays, facts)
        shape = len(model.row_factors_), len(model.col_factors_)
        model._draws = Draws.from_arrays(arrays, shape, model.row_factors_.shape[1])
        return model
