"""Predictions of a completed matrix with intervals around them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from rslm.data import ObservedMatrix
from rslm.estimators.automatic.calibrated import calibrated, factors_in_units, targets
from rslm.estimators.automatic.folds import Fold
from rslm.estimators.completion.bounds import clipped
from rslm.estimators.completion.error_size import CONSTANT, ErrorSize, Residuals
from rslm.estimators.completion.intervals import Intervals
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.leverage import Leverage
from rslm.estimators.completion.recommend import Recommending
from rslm.evaluate import align, unseen
from rslm.evaluate.intervals import check_coverage
from rslm.runtime.threads import single_threaded_blas, thread_count
from rslm.runtime.types import Floats
from rslm.storage.container import Arrays, Facts


class PredictingIntervals(Recommending):
    """A learned matrix that knows how large its errors are."""

    C_: float
    weighting_: float
    residuals_: ObservedMatrix
    _intervals: Intervals | None = None

    def predict_interval(
        self, rows: ArrayLike, cols: ArrayLike, coverage: float = 0.9, *, missing: bool = False
    ) -> tuple[Floats, Floats]:
        """Intervals that cover new observations of the entries (rows[k], cols[k]) with a given probability.

        Split conformal prediction: an interval is the prediction ± a factor times the size that its error is expected
        to have. That size depends on how many entries the row and the column have and on how well those are fitted; the
        factor is such that the intervals of held-out entries, which the model had not seen, cover them as often as
        asked. The held-out entries are those by which `fit` has found its settings. If all settings were given, the
        first call fits the model once more, to a part of the entries; or give entries of your own to `calibrate`.

        What it promises: of new observations that are drawn like the observed ones, at least the fraction `coverage`
        is within the intervals, on average over rows and columns, whether or not the model is right. What it does not:
        that this holds for every single row, or where what is missing differs from what is observed in other ways than
        `missing` accounts for, such as ratings that are missing because they would be low.

        Parameters
        ----------
        rows, cols : arrays of one length
            Positions, or ids where `fit` was given ids.
        coverage : float, default=0.9
            The probability, between 0 and 1. It needs coverage/(1 − coverage) held-out entries.
        missing : bool, default=False
            Whether the entries are drawn from the missing ones rather than like the observed ones. Held-out entries
            are then weighted by the odds that an entry like them is missing, as estimated from the counts of rows and
            columns: those of rows and columns with few entries count more. An interval is infinite where too few
            held-out entries are similar.

        Returns
        -------
        lower, upper : arrays
            Within the bounds of the model, if there are any.
        """
        check_is_fitted(self)
        coverage = check_coverage(coverage)
        self._check_no_classes()
        i, j = (np.atleast_1d(side.positions(given)) for side, given in ((self._rows, rows), (self._cols, cols)))
        center = self._entries(self._left, i, self._right, j)
        with single_threaded_blas():  # the matrices are thin
            if self._intervals is None:
                self._intervals = self._held_out_again()
            half = self._intervals.widths(self._leverage(self._intervals), i, j, coverage, missing)
        return clipped(center - half, self._box, i, j), clipped(center + half, self._box, i, j)

    def calibrate(self, X: Any) -> Self:
        """Let `predict_interval` rely on these held-out entries, in place of those that `fit` held out.

        Parameters
        ----------
        X : as in `fit`
            Entries of the fitted rows and columns that `fit` was not given; those that it was given are left out, as
            they would make the intervals too narrow. An ObservedMatrix with ids is arranged by them.
        """
        check_is_fitted(self)
        self._check_no_classes()
        by_id = isinstance(X, ObservedMatrix) and X.row_ids is not None
        held = align(X, self) if by_id else self._observed(X, fitting=False)
        shape = len(self.row_factors_), len(self.col_factors_)
        if held.shape != shape:
            raise ValueError(
                f"X has {held.shape[0]} rows, but the model was fitted to {shape[0]}; it needs the same rows"
            )
        given, fitted = len(held), hasattr(self, "residuals_")
        held = unseen(held, self.residuals_) if fitted else held
        if not len(held):
            raise ValueError(
                f"nothing is held out: of the entries of X, {given} are of rows and columns of the model, and it was "
                "fitted to all of these; give it other entries"
            )
        loss, threads = self._checked_loss(), thread_count(self.n_threads)
        if fitted:
            layout = self._fitted_layout()
            made = calibrated([(Fold(layout.data, held), layout, self._attributes)], self._box, loss, threads)
        else:
            made = self._alike(held, np.abs(targets(held, loss) - self._predicted(held, self._left)))
        if made is None:
            raise ValueError("errors of the entries of X are not finite numbers; rescale the data and fit again")
        self._intervals = made
        return self

    def _alike(self, held: ObservedMatrix, errors: Floats) -> Intervals:
        """Intervals of one width: without the residuals of the fit, all errors are expected to have the same size."""
        of_rows, of_columns = (np.zeros(n) for n in held.shape)
        size = ErrorSize(Residuals(of_rows, of_columns, of_rows, of_columns, None), CONSTANT)
        return Intervals.of(size, errors, np.ones(len(errors)), held.rows_of_entries(), held.index)

    def _check_no_classes(self) -> None:
        if self.classes_ is not None:
            raise ValueError(
                f"intervals are for real numbers, but loss={self.loss!r} is for two classes; use predict_proba with "
                "loss='logistic'"
            )

    def _held_out_again(self) -> Intervals:
        """Intervals by a fit to a part of the entries, with the settings of this one."""
        raise ValueError(
            "the model has no held-out entries: none were held out in fit, or it was saved without them or fitted by a "
            "cluster. Call calibrate(X) with entries that fit has not seen"
        )

    def _fitted_layout(self) -> Layout:
        """The layout of this fit, for its settings."""
        units = self._subspace.units if self._ridges is not None else None
        parts = self._fitted_data(), self._checked_loss(), self.C_, self.weighting_, self._box
        return Layout(*parts, ridges=self._ridges, units=units)

    def _leverage(self, intervals: Intervals) -> Leverage:
        residuals = intervals.size.residuals
        counts = residuals.row_counts, residuals.col_counts
        factors = factors_in_units(self._attributes, residuals.units)
        return Leverage.of(factors, counts, self.C_, self.weighting_, self._ridges)

    @property
    def _attributes(self) -> dict[str, Any]:
        """What predictions are made of."""
        names = ("row_factors_", "col_factors_", "intercept_", "row_effects_", "col_effects_")
        return {name: getattr(self, name) for name in names}

    def _fitted_data(self) -> ObservedMatrix:
        """The matrix that `fit` was given."""
        w = self._predicted(self.residuals_, self._left)
        if self.classes_ is None:
            return self.residuals_.with_values(self.residuals_.values + w)
        # A residual is 0 or 1 minus the probability, so that its sign is that of the class.
        return self.residuals_.with_values(np.where(self.residuals_.values > 0, 1.0, -1.0))

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        return arrays | ({} if self._intervals is None else self._intervals.to_arrays()), facts
