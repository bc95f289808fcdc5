"""Many related regressions that share a low-dimensional space of features."""

from __future__ import annotations

import os
import time
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from rslm.estimators.choices import checked_data
from rslm.estimators.persistence import storable
from rslm.estimators.scikit_learn import with_callbacks
from rslm.estimators.tasks.kinks import FINEST, rounded
from rslm.estimators.tasks.named_tasks import NamedTasks, middles_of_tasks, stacked, with_targets, with_weight
from rslm.estimators.tasks.units import Units
from rslm.evaluation.objective import Objective
from rslm.location import Effects
from rslm.measurements import Tasks
from rslm.problem import Problem
from rslm.runtime.types import Floats


@storable
class MultiTaskRegressor(RegressorMixin, NamedTasks):  # type: ignore[misc]
    """Linear regressions of many tasks whose coefficients lie in a common subspace.

    Rows of task t are predicted by ``x·(w₀ + w_t) + μ + c_t``. The coefficients w₀ and the intercept μ are common to
    all tasks; W, with w_t as its columns, has low rank. It minimises
    ``C Σ loss + ½ ‖W‖_*² + ½ ρ_w |w₀|² + ½ ρ_c |c|²`` over all rows of all tasks. By default rank, C and both ridges
    are those that predict held-out rows best: a fifth of the rows of every task in turn, or one fifth where there are
    many. One model for all tasks (W = 0) and a ridge for every task in place of the trace norm are compared too, and
    are taken if they predict better.

    With effects, features are divided by their standard deviations, after their means are subtracted unless they are
    sparse, and targets of the square loss by theirs: neither units nor shifts change predictions. Coefficients are
    those of the features as given, but C and ridges those of the scaled ones.

    With explicit `rank` and `C` and ``effects=None``, it is ``C Σ loss(y_i, x_i·w_t + b_t) + ½ ‖W‖_*²`` in the units of
    the data, and nothing else.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Maximum rank of W; at most the number of features and of tasks is used.
    C : float or "auto", default="auto"
        Weight of the loss, a sum over all rows, against the trace norm. Larger fits the data more closely.
    effects : "auto", None or a pair of numbers, default="auto"
        "auto" for common coefficients and shrunk intercepts of the tasks. A pair gives their ridges, in units of rows:
        10 weighs as much as ten rows; None in place of a ridge leaves out the common coefficients, or the shrunk
        intercepts. None for neither: then the intercepts of the tasks are not shrunk.
    loss : str or Loss, default="square"
        "square", "absolute", "epsilon_insensitive", "huber", "quantile", or an instance with parameters, such as
        ``rslm.losses.Huber(0.5)``, in the units of the targets. The widths of "huber" and "epsilon_insensitive" follow
        from the spread of the targets.
    fit_intercept : bool, default=True
        Whether there are intercepts: of every task, not penalised, with ``effects=None``; else a common one, not
        penalised, and shrunk differences of the tasks from it.
    solver : {"trust-region", "conjugate-gradient"}, default="trust-region"
        The first uses second derivatives and needs few iterations; the second needs more of them, each cheaper.
    max_iter : int, default=1000
        Maximum number of outer iterations, including those of continuation stages.
    tol : float, default=1e-6
        Converged when the relative gradient, certified when the relative duality gap is at most this.
    max_time : float, optional
        Seconds after which the best answer so far is kept.
    warm_start : bool, default=False
        Whether `fit` starts from the subspace that the last `fit` has found, for instance on a path of growing C.
    random_state : int, RandomState, Generator or None
        Seed of the start and of the held-out rows; these are the same every time if it is None.
    n_threads : int, optional
        Threads to use, all cores if None.
    verbose : int, default=0
        1 logs every iteration to the logger "rslm"; see the guide for notebooks.

    Attributes
    ----------
    coef_ : array (n_tasks, n_features)
        Row t holds the coefficients of task t, w₀ + w_t.
    intercept_ : array (n_tasks,)
        Those of the tasks, μ + c_t; 0 without `fit_intercept`.
    common_coef_ : array (n_features,)
        w₀; 0 without effects.
    common_intercept_ : float
        μ; 0 without effects.
    tasks_ : array (n_tasks,)
        The labels of the tasks, in the order of `coef_`.
    subspace_ : array (n_features, rank_)
        Orthonormal directions that span what the tasks add to the common coefficients, the strongest first.
    loss_ : Loss
        The loss that was used, with its parameters.
    C_, rank_, effects_
        What was given or found; `rank_` is that of W, and `effects_` has the ridges of common coefficients and
        intercepts.
    task_part_ : str
        "low rank"; or "none" if one model for all tasks predicts held-out rows at least as well, or "ridge" if a ridge
        for every task predicts them better.
    held_out_ : dict or None
        Errors of held-out rows: of the "mean", of one "pooled" model for all tasks, of a ridge "by_task", and of the
        chosen "model". They are root mean squares for the square loss, mean losses otherwise.
    path_ : dict of arrays, or None
        task_part, rank, C, common and intercepts (the ridges), error (of held-out rows) and seconds of all settings
        that were tried. None if there was nothing to find.
    certificate_, history_, outcome_, converged_, n_iter_
        As in `MatrixCompletion`. Without a part of low rank the certificate is None.

    Examples
    --------
    >>> import numpy as np
    >>> from rslm import MultiTaskRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.standard_normal((60, 4)), np.repeat(["a", "b", "c"], 20)
    >>> y = X @ [1.0, 2.0, 0.5, -1.0] * np.repeat([1.0, 2.0, 3.0], 20) + 5
    >>> model = MultiTaskRegressor().fit(X, y, tasks=tasks)
    >>> model.coef_.round(1)[1]
    array([ 2.,  4.,  1., -2.])
    >>> model.predict(X[:2], tasks=["c", "a"]).shape
    (2,)
    """

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any,
        tasks: ArrayLike | None = None,
        sample_weight: Any = None,
        *,
        drop_missing: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        client: Any = None,
    ) -> Self:
        """Learn all tasks.

        Parameters
        ----------
        X : array, DataFrame or scipy.sparse matrix of shape (n, n_features), or a list of such, one a task
        y : array of shape (n,), or a list of such
        tasks : array of n labels, optional
            Which task a row belongs to. Not with lists, whose tasks are 0, 1, …; all rows are one task if None.
        sample_weight : array of n numbers ≥ 0, or a list of such, optional
            The losses of the rows are multiplied by them: weight 2 is the row twice, a row of weight 0 is left out.
        drop_missing : bool, default=False
            Whether rows whose target is missing (NaN) are left out; otherwise they are an error.
        checkpoint : path, optional
            As in `MatrixCompletion.fit`.
        client : distributed.Client, optional
            The client of a Dask cluster, whose workers share the tasks.
        """
        began = time.perf_counter()
        X, y, tasks, weights = with_weight(*stacked(X, y, tasks, sample_weight))
        X, y, tasks, weights = with_targets(X, y, tasks, drop_missing, weights)
        X, y = checked_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        codes = self._codes(tasks, len(y))
        loss = self._regression_loss(lambda: y - middles_of_tasks(y, codes, True, weights)[codes], weights)
        if y.dtype.kind not in "fiub":
            raise TypeError(
                f"y has dtype {y.dtype}, but a regression needs real numbers; for classes there is MultiTaskClassifier"
            )
        how: dict[str, Any] = {"checkpoint": checkpoint, "client": client, "began": began}
        if self._has_effects:
            centred = bool(self.fit_intercept)
            units = Units.of(X, weights, len(self.tasks_), centred).with_targets(y, weights, loss, centred)
            data = Tasks(units.features(X), (y - units.middle[codes]) / units.scale[codes], codes, weights=weights)
            self._fit_with_effects(data, loss, units, codes, **how)
            return self
        middles: Floats = np.zeros(len(self.tasks_))
        if self.fit_intercept:
            middles = middles_of_tasks(y, codes, not loss.quadratic, weights)
        data = Tasks(X, y - middles[codes], codes, intercept=bool(self.fit_intercept), weights=weights)
        self._fit_tasks(data, loss, middles, codes, **how)
        return self

    def predict(self, X: Any, tasks: ArrayLike | None = None, *, unseen: str = "error") -> Floats:
        """Predict rows of X, each with the model of its task.

        Parameters
        ----------
        X : array of shape (n, n_features)
        tasks : n labels, or one for all rows; may be left out if `fit` had one task
        unseen : {"error", "mean"}
            Whether a task that `fit` has not seen is an error, or predicted by the common model; without effects, by
            the mean of all tasks.
        """
        check_is_fitted(self)
        return self._linear(X, tasks, unseen)

    def predict_interval(self, X: Any, tasks: ArrayLike | None = None, coverage: float = 0.9) -> tuple[Floats, Floats]:
        """Intervals in which the targets of new rows lie with the probability `coverage`.

        They are split conformal: as wide as held-out rows need, in proportion to the noise of the task and to how
        little its rows say about a row such as this. The held-out rows are those by which settings were chosen; if all
        settings were given, `calibrate` takes some. The probability is that of a new row of any task of the fit,
        whatever the model, if it comes from where the held-out rows came from. It may be smaller for a single task or
        for a single row, and nothing is promised for rows of another kind.

        Parameters
        ----------
        X : array of shape (n, n_features)
        tasks : n labels, or one for all rows; may be left out if `fit` had one task
        coverage : float between 0 and 1

        Returns
        -------
        lower, upper : arrays of shape (n,)
        """
        check_is_fitted(self)
        middle = self._linear(X, tasks, "error")  # checks X, with its feature names
        X = checked_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        where = self._positions(tasks, X.shape[0], "error")
        reach = self._reach(X, np.arange(len(where)), where, coverage)
        return middle - reach, middle + reach

    def calibrate(self, X: Any, y: Any, tasks: ArrayLike | None = None) -> Self:
        """Let intervals follow from the errors of rows that `fit` has not seen.

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : array of shape (n,)
        tasks : as in `predict`
        """
        check_is_fitted(self)
        found = self._linear(X, tasks, "error")  # checks X, with its feature names
        X, y = checked_data(self, X, y, reset=False, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        where = self._positions(tasks, len(y), "error")
        self._calibrate(X, np.arange(len(y)), where, y - found)
        return self

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, tasks: ArrayLike | None = None
    ) -> float:
        """R² of the predictions of all rows.

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : array of shape (n,)
        sample_weight : array of n weights, optional
        tasks : as in `predict`
        """
        return float(r2_score(y, self.predict(X, tasks), sample_weight=sample_weight))

    def fit_task(self, X: Any, y: Any, sample_weight: Any = None) -> tuple[Floats, float]:
        """Coefficients and intercept of a new task, from few rows: the common ones and some of the learned subspace.

        The model itself does not change.

        Parameters
        ----------
        X : array of shape (n, n_features)
            Rows of the new task only.
        y : array of shape (n,)
        sample_weight : array of n numbers ≥ 0, optional
            As in `fit`.

        Returns
        -------
        coef, intercept : array of shape (n_features,) and float
        """
        check_is_fitted(self)
        X, y, _, weights = with_weight(X, y, None, sample_weight)
        X, y = checked_data(self, X, y, reset=False, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        if self.effects_ is not None:
            return self._fit_task_with_effects(X, y, weights)
        mean = float(np.average(y, weights=weights)) if self.fit_intercept else 0.0
        one = np.zeros(len(y), dtype=np.int64)
        U = self._U / self._units.size[:, None]
        data = Tasks(X, y - mean, one, intercept=bool(self.fit_intercept), weights=weights)
        loss = rounded(self._checked_loss(), data.values, FINEST)
        found = Objective(Problem(loss, data, C=self.C_), self.n_threads).evaluate(U)
        offset = 0.0 if found.intercepts is None else float(found.intercepts[0])
        return U @ found.V[0], mean + offset

    def _fit_task_with_effects(self, X: Any, y: Floats, weights: Floats | None) -> tuple[Floats, float]:
        """From the common model: what the task adds to it is shrunk as that of other tasks."""
        units, one = self._units, np.zeros(len(y), dtype=np.int64)
        data = Tasks(units.features(X), (y - units.middle[0]) / units.scale[0], one, weights=weights)
        loss = rounded(self._checked_loss(), data.values, FINEST)
        problem = Problem(loss, data, C=self.C_, location=self._location)
        objective, coef, middle = Objective(problem, self.n_threads), np.zeros(X.shape[1]), 0.0
        if objective.packing is None:
            found = objective.evaluate(self._U)
        else:
            coef = self.common_coef_ * units.size / units.scale[0]
            middle = float(self.common_intercept_ + self.common_coef_ @ units.mean - units.middle[0]) / units.scale[0]
            effects = Effects(middle, coef, np.zeros(1), np.zeros(0))
            found = objective.evaluate(objective.packing.packed(self._U, effects))
            middle += 0.0 if found.effects is None else float(found.effects.columns[0])
        own, intercept = units.coefficients(self._U @ found.V[0] + coef, np.array([middle]), each=False)
        return own[0], float(intercept[0])
