"""Regression of many targets on the same features, with coefficients of low rank."""

from __future__ import annotations

import os
import time
from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array, check_is_fitted

from rslm.data import ObservedMatrix, parts
from rslm.estimators.choices import as_loss, checked_data
from rslm.estimators.persistence import storable
from rslm.estimators.scaling import extreme_scale
from rslm.estimators.scikit_learn import with_callbacks
from rslm.estimators.tasks.named_tasks import with_weight
from rslm.estimators.tasks.task_model import TaskModel
from rslm.estimators.tasks.units import Units, in_any_unit, spread_of
from rslm.kernels import Stopped
from rslm.linalg.blocked_qr import reduced
from rslm.losses import Loss
from rslm.measurements import Tasks
from rslm.runtime.interrupts import deferred_interrupts
from rslm.runtime.types import Floats, Indices64
from rslm.solvers.stopping import check_max_time
from rslm.storage.container import Arrays, Facts


@storable
class ReducedRankRegressor(MultiOutputMixin, RegressorMixin, TaskModel):  # type: ignore[misc]
    """Linear regression of several targets whose coefficients have low rank.

    Minimises ``C Σ loss(y_it, x_iᵀ w_t + b_t) + ½ ‖W‖_*²`` over the observed entries of Y.

    With effects, targets may have different units: each is divided by its standard deviation, or by a robust estimate
    of it if the loss is "huber", "epsilon_insensitive", "absolute" or "quantile". With the loss of a given width, such
    as "huber:0.5", or of your own, targets are not divided.

    Parameters
    ----------
    rank, C, loss, effects, fit_intercept, solver, max_iter, tol, max_time, warm_start, random_state, n_threads, verbose
        As in `MultiTaskRegressor`; a target is a task.

    Attributes
    ----------
    coef_ : array (n_targets, n_features)
    intercept_ : array (n_targets,)
    subspace_, loss_, certificate_, history_, outcome_, converged_, n_iter_, rank_
        As in `MultiTaskRegressor`. A width in `loss_` that was found is in the units of the divided targets, and so are
        C_ and, with several targets, the errors in held_out_ and path_.

    Examples
    --------
    >>> import numpy as np
    >>> from rslm import ReducedRankRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 4))
    >>> Y = np.outer(X @ [1.0, 0.5, 2.0, -1.0], [1.0, 2.0, 3.0])
    >>> Y[3, 1] = np.nan  # not observed
    >>> model = ReducedRankRegressor(rank=1, C=100.0).fit(X, Y)
    >>> model.coef_.round(1)[2]
    array([ 3. ,  1.5,  6. , -3. ])
    """

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        client: Any = None,
    ) -> Self:
        """Learn all targets.

        Parameters
        ----------
        X : array, DataFrame or scipy.sparse matrix of shape (n, n_features)
        y : array of shape (n, n_targets), or (n,) for one target
            NaN is missing; every target needs a value.
        sample_weight : array of n numbers ≥ 0, optional
            The losses of all targets of a row are multiplied by its weight: weight 2 is the row twice, a row of weight
            0 is left out.
        checkpoint : path, optional
            As in `MatrixCompletion.fit`.
        client : distributed.Client, optional
            The client of a Dask cluster, whose workers share the targets.
        """
        began = time.perf_counter()
        X, y, _, weights = with_weight(X, y, None, sample_weight)
        X = checked_data(self, X, accept_sparse="csr", dtype=np.float64)
        if y is None:
            raise ValueError("this regressor requires y to be passed, but the target y is None")
        Y = check_array(y, dtype=np.float64, ensure_all_finite="allow-nan", ensure_2d=False, input_name="y")
        if Y.ndim > 2 or Y.shape[0] != X.shape[0]:
            raise ValueError(f"y must have shape ({X.shape[0]}, n_targets), a row for every row of X; got {Y.shape}")
        self._flat = Y.ndim == 1
        Y = np.asarray(Y.reshape(len(Y), -1), dtype=np.float64)
        seen = ~np.isnan(Y)
        empty = np.flatnonzero(~seen.any(axis=0))
        if len(empty):
            raise ValueError(f"target {int(empty[0])} has no value; all of y[:, {int(empty[0])}] is NaN")
        if self._has_effects:
            self._fit_scaled(X, Y, weights, checkpoint=checkpoint, client=client, began=began)
            return self
        loss = self._loss_for_targets(Y, weights)
        means: Floats = _means(Y, weights) if self.fit_intercept else np.zeros(Y.shape[1])
        check_max_time(self.max_time)
        with deferred_interrupts() as interrupt, interrupt.within(self.max_time, began):
            Y, unexplained, centre = Y - means, 0.0, None
            rows = float(len(Y)) if weights is None else float(weights.sum())
            asked = self._asked()
            given = asked.rank is not None and asked.C is not None  # a search has to hold out rows
            if given and loss.quadratic and seen.all() and isinstance(X, np.ndarray) and X.shape[0] > X.shape[1]:
                try:
                    data, unexplained, centre = self._complete(X, Y, weights)
                except Stopped:  # no time is left, which the solver finds; a checkpoint would be of another problem
                    data, checkpoint, client = _unfactorised(X, _scaled(Y, weights)), None, None
            else:
                targets = ObservedMatrix.from_any(Y)
                if weights is not None:
                    targets = targets.weighted(np.broadcast_to(weights[:, None], Y.shape))
                data = Tasks.shared(X, targets, intercept=bool(self.fit_intercept))
            how: dict[str, Any] = {"checkpoint": checkpoint, "client": client, "began": began}
            self._fit_tasks(data, loss, means, _one_stratum(data), unexplained, centre, rows, **how)
        return self

    def _fit_scaled(self, X: Any, Y: Floats, weights: Floats | None, **how: Any) -> None:
        """Features and targets in units of their own, with effects."""
        units, seen = Units.of(X, weights, Y.shape[1], bool(self.fit_intercept)), ~np.isnan(Y)
        given = as_loss(self.loss)
        kind = bool(self.fit_intercept), given.quadratic, in_any_unit(self.loss, given)
        for t, y in enumerate(Y.T):
            own = None if weights is None else weights[seen[:, t]]
            units.middle[t], units.scale[t] = spread_of(y[seen[:, t]], own, *kind)
        Y = (Y - units.middle) / units.scale
        loss = self._loss_for_targets(Y, weights)
        targets = ObservedMatrix.from_any(Y)
        if weights is not None:
            targets = targets.weighted(np.broadcast_to(weights[:, None], Y.shape))
        data = Tasks.shared(units.features(X), targets)
        self._fit_with_effects(data, loss, units, _one_stratum(data), **how)

    def _loss_for_targets(self, Y: Floats, weights: Floats | None) -> Loss:
        seen = ~np.isnan(Y)
        of_entries = None if weights is None else np.broadcast_to(weights[:, None], Y.shape)[seen]
        return self._regression_loss(lambda: (Y - np.nanmedian(Y, axis=0))[seen], of_entries)

    def _complete(self, X: Floats, Y: Floats, weights: Floats | None) -> tuple[Tasks, float, Floats]:
        """The problem with X = QR, if nothing is missing: |Y − XW|² = |QᵀY − RW|² + |Y − QQᵀY|².

        All targets share the mean of X. It is subtracted, so that no intercepts have to be solved for. With weights,
        the rows of X and Y are multiplied by their square roots.
        """
        centre: Floats = np.average(X, axis=0, weights=weights) if self.fit_intercept else np.zeros(X.shape[1])
        if weights is None:
            R, turned, unexplained = reduced(X, Y, centre)
        else:
            R, turned, unexplained = reduced(_scaled(X - centre, weights), _scaled(Y, weights), np.zeros_like(centre))
        return Tasks.shared(R, turned), unexplained, centre

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the observed targets, averaged over the columns of y; missing ones (NaN) are left out.

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : array of shape (n, n_targets), or (n,) for one target
        sample_weight : array of n weights, optional
        """
        found = self.predict(X).reshape(-1, len(self.coef_))
        Y = np.asarray(y, dtype=np.float64).reshape(len(found), -1)
        weight = np.ones(len(Y)) if sample_weight is None else np.asarray(sample_weight)
        seen = ~np.isnan(Y)
        scores = [r2_score(Y[s, t], found[s, t], sample_weight=weight[s]) for t, s in enumerate(seen.T) if s.any()]
        return float(np.mean(scores))

    def predict(self, X: Any) -> Floats:
        """All targets of the rows of X, of shape (n, n_targets), or (n,) if `fit` was given one."""
        check_is_fitted(self)
        X = checked_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        found = np.asarray(X @ self.coef_.T) + self.intercept_
        return found[:, 0] if self._flat else found

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Floats, Floats]:
        """Intervals in which the targets of new rows lie with the probability `coverage`.

        What they promise is in `MultiTaskRegressor.predict_interval`; a target is a task.

        Parameters
        ----------
        X : array of shape (n, n_features)
        coverage : float between 0 and 1

        Returns
        -------
        lower, upper : arrays of the shape of the predictions
        """
        check_is_fitted(self)
        middle = self.predict(X)  # checks X, with its feature names
        X = checked_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        rows, targets = np.indices((X.shape[0], len(self.coef_))).reshape(2, -1)
        reach = self._reach(X, rows, targets, coverage).reshape(middle.shape)
        return middle - reach, middle + reach

    def calibrate(self, X: Any, y: Any) -> Self:
        """Let intervals follow from the errors of rows that `fit` has not seen.

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : array of shape (n, n_targets), or (n,) for one target
            NaN is missing.
        """
        check_is_fitted(self)
        found = self.predict(X).reshape(-1, len(self.coef_))  # checks X, with its feature names
        X = checked_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        Y = check_array(y, dtype=np.float64, ensure_all_finite="allow-nan", ensure_2d=False, input_name="y")
        if Y.reshape(len(Y), -1).shape != found.shape:
            raise ValueError(f"y must have shape {found.shape}, a row for every row of X; got {Y.shape}")
        errors = Y.reshape(found.shape) - found
        rows, targets = np.nonzero(~np.isnan(errors))
        self._calibrate(X, rows, targets, errors[rows, targets])
        return self

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        return arrays, facts | {"flat": self._flat}

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = super()._from_file(params, arrays, facts)
        model._flat = parts.flag(facts, "flat") and len(model.coef_) == 1
        model._describe()
        return model


def _one_stratum(data: Tasks) -> Indices64:
    return np.zeros(data.features.shape[0], dtype=np.int64)


def _means(Y: Floats, weights: Floats | None) -> Floats:
    """The means of the targets that are not missing."""
    if weights is None:
        return np.asarray(np.nanmean(Y, axis=0))
    seen = ~np.isnan(Y)
    return np.asarray((weights @ np.where(seen, Y, 0.0)) / (weights @ seen))


def _scaled(rows: Floats, weights: Floats | None) -> Floats:
    return rows if weights is None else rows * np.sqrt(weights)[:, None]


def _unfactorised(X: Floats, Y: Floats) -> Tasks:
    """One row instead of all, with the same loss at W = 0, for a fit without time to factorise X."""
    scale = extreme_scale(np.array([Y.min(), Y.max()]))
    scaled = Y if scale == 1.0 else Y / scale
    norms = scale * np.sqrt(np.einsum("it,it->t", scaled, scaled))
    return Tasks.shared(np.zeros((1, X.shape[1])), norms[None])
