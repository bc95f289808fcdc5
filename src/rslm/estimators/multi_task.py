"""Many related regressions that share a low-dimensional space of features."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from rslm._typing import Floats, Indices64
from rslm.certificate import Certificate
from rslm.data import Labels, as_generator
from rslm.estimators.choices import as_loss, line, warn_if_not_converged
from rslm.estimators.persistence import Arrays, Facts, ids_from_array, ids_to_array, loss_from_plain, save, storable
from rslm.measurements import Tasks
from rslm.objective import Objective
from rslm.problem import Problem
from rslm.solvers import solve
from rslm.solvers.stopping import Progress
from rslm.verbosity import logger, show_log

FACTS = ("outcome_", "converged_", "n_iter_", "rank_", "n_features_in_")


@storable
class MultiTaskRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Linear regressions of many tasks whose coefficients lie in a common subspace.

    Learns W, with the coefficients of task t as its column, of rank at most `rank`, that minimises
    ``C Σ loss(y_i, x_iᵀ w_t + b_t) + ½ ‖W‖_*²`` over all rows of all tasks.

    Parameters
    ----------
    rank : int, default=5
        Largest rank of W; no more than there are features and tasks.
    C : float, default=1.0
        Weight of the loss, a sum over all rows, against the trace norm. Larger fits the data more closely.
    loss : str or Loss, default="square"
        "square", "absolute", "epsilon_insensitive", "huber", "quantile", or an instance with parameters.
    fit_intercept : bool, default=True
        Whether every task has an intercept, which is not penalised.
    solver : {"trust-region", "conjugate-gradient"}, default="trust-region"
    max_iter : int, default=1000
    tol : float, default=1e-6
        Converged when the relative gradient, certified when the relative duality gap is at most this.
    max_time : float, optional
        Seconds after which the best answer so far is kept.
    random_state : int, RandomState, Generator or None
        Seed of the start.
    n_threads : int, optional
        Threads to use, all cores if None.
    verbose : int, default=0
        1 logs every iteration to the logger "rslm".

    Attributes
    ----------
    coef_ : array (n_tasks, n_features)
    intercept_ : array (n_tasks,)
    tasks_ : array (n_tasks,)
        The labels of the tasks, in the order of `coef_`.
    subspace_ : array (n_features, rank_)
        Orthonormal directions that all coefficients are combinations of, the strongest first.
    certificate_, history_, outcome_, converged_, n_iter_, rank_
        As of `MatrixCompletion`.

    Examples
    --------
    >>> import numpy as np
    >>> from rslm import MultiTaskRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.standard_normal((60, 4)), np.repeat(["a", "b", "c"], 20)
    >>> y = X @ [1.0, 2.0, 0.0, -1.0] * np.repeat([1.0, 2.0, 3.0], 20) + 5
    >>> model = MultiTaskRegressor(rank=1, C=100.0).fit(X, y, tasks=tasks)
    >>> model.coef_.round(1)[1]
    array([ 2.,  4.,  0., -2.])
    >>> model.predict(X[:2], tasks=["c", "a"]).shape
    (2,)
    """

    def __init__(
        self,
        rank: int = 5,
        C: float = 1.0,
        *,
        loss: Any = "square",
        fit_intercept: bool = True,
        solver: str = "trust-region",
        max_iter: int = 1000,
        tol: float = 1e-6,
        max_time: float | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    def fit(self, X: Any, y: Any, tasks: ArrayLike | None = None) -> Self:
        """Learn all tasks.

        Parameters
        ----------
        X : array, DataFrame or scipy.sparse matrix of shape (n, n_features), or a list of such, one a task
        y : array of shape (n,), or a list of such
        tasks : array of n labels, optional
            Which task a row belongs to. Not with lists, whose tasks are 0, 1, …; all rows are one task if None.
        """
        X, y, tasks = _stacked(X, y, tasks)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        labels = np.zeros(len(y), dtype=np.int64) if tasks is None else np.asarray(tasks)
        if labels.shape != (len(y),):
            raise ValueError(f"tasks must have {len(y)} labels, one for every row of X; got shape {labels.shape}")
        self.tasks_, codes = np.unique(labels, return_inverse=True)
        loss = as_loss(self.loss)
        if loss.binary:
            raise ValueError(f"{loss!r} is for two classes; a regression needs a loss of real numbers")
        counts = np.bincount(codes)
        # Means are taken out first, so that intercepts are small.
        means = np.bincount(codes, y) / counts if self.fit_intercept else np.zeros(len(counts))
        data = Tasks(X, y - means[codes], codes, intercept=bool(self.fit_intercept))
        if self.verbose:
            show_log()
        result = solve(
            Problem(loss, data, C=self.C),
            self._checked_rank(data.shape),
            solver=self.solver,
            max_iter=self.max_iter,
            tol=self.tol,
            max_time=self.max_time,
            callback=self._log if self.verbose else None,
            random_state=as_generator(self.random_state),
            n_threads=self.n_threads,
        )
        offsets = np.zeros(len(counts)) if result.intercepts is None else result.intercepts
        self.coef_, self.intercept_ = result.V @ result.U.T, means + offsets
        self._U = result.U
        self.certificate_, self.history_ = result.certificate, result.history
        self.outcome_, self.converged_ = result.outcome.value, result.converged
        self.n_iter_ = max(result.n_iter, 1)
        self.rank_ = result.numerical_rank() if result.V.any() else 0
        self._describe()
        warn_if_not_converged(result.outcome, self.max_iter, float(result.history["relative_gradient"][-1]))
        return self

    def _describe(self) -> None:
        self._labels = Labels("task", len(self.tasks_), self.tasks_)
        self.subspace_ = np.linalg.svd(self.coef_.T, full_matrices=False)[0][:, : self.rank_]

    def _checked_rank(self, shape: tuple[int, int]) -> int:
        if isinstance(self.rank, bool) or not isinstance(self.rank, int | np.integer) or self.rank < 1:
            raise ValueError(f"rank must be a whole number ≥ 1; got {self.rank!r}")
        return min(int(self.rank), *shape)

    @staticmethod
    def _log(progress: Progress) -> None:
        logger.info(line(progress))

    def predict(self, X: Any, tasks: ArrayLike | None = None, *, unseen: str = "error") -> Floats:
        """The predictions of rows of X, each by its task.

        Parameters
        ----------
        X : array of shape (n, n_features)
        tasks : n labels, or one for all rows; may be left out where `fit` had one task
        unseen : {"error", "mean"}
            What a task that `fit` has not seen is: an error, or predicted by the mean of all tasks.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        where = self._positions(tasks, X.shape[0], unseen)
        mean = self.coef_.mean(axis=0), self.intercept_.mean()
        coef, intercept = np.vstack([self.coef_, mean[0]]), np.append(self.intercept_, mean[1])
        rows = coef[where]
        products = X.multiply(rows).sum(axis=1) if hasattr(X, "multiply") else np.einsum("nd,nd->n", X, rows)
        return np.asarray(np.ravel(products) + intercept[where])

    def _positions(self, tasks: ArrayLike | None, n: int, unseen: str) -> Indices64:
        """Rows of `coef_`; one beyond the last for a task that was not seen."""
        if unseen not in ("error", "mean"):
            raise ValueError(f'unseen must be "error" or "mean"; got {unseen!r}')
        if tasks is None:
            if len(self.tasks_) > 1:
                raise ValueError(f"predict needs tasks: which of the {len(self.tasks_)} tasks does a row belong to?")
            return np.zeros(n, dtype=np.int64)
        labels = np.asarray(tasks)
        if labels.ndim == 0:
            labels = np.full(n, labels[()])
        if labels.shape != (n,):
            raise ValueError(f"tasks must have {n} labels, one for every row of X; got shape {labels.shape}")
        if unseen == "error":
            return self._labels.positions(labels)
        known = np.isin(labels, self.tasks_)
        where = np.full(n, len(self.tasks_), dtype=np.int64)
        where[known] = self._labels.positions(labels[known])
        return where

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, tasks: ArrayLike | None = None
    ) -> float:
        """R² of the predictions of all rows."""

        return float(r2_score(y, self.predict(X, tasks), sample_weight=sample_weight))

    def fit_task(self, X: Any, y: Any) -> tuple[Floats, float]:
        """Coefficients and intercept of a new task, from few rows: within the subspace that all others have taught.

        The model itself stays as it is.
        """
        check_is_fitted(self)
        X, y = validate_data(self, X, y, reset=False, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        mean = float(np.mean(y)) if self.fit_intercept else 0.0
        data = Tasks(X, y - mean, np.zeros(len(y), dtype=np.int64), intercept=bool(self.fit_intercept))
        found = Objective(Problem(as_loss(self.loss), data, C=self.C), self.n_threads).evaluate(self._U)
        offset = 0.0 if found.intercepts is None else float(found.intercepts[0])
        return self._U @ found.V[0], mean + offset

    # ---- files -----------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that `rslm.load` reads: arrays and JSON, no pickle."""
        check_is_fitted(self)
        save(self, path)

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays = {"coef": self.coef_, "intercept": self.intercept_, "U": self._U}
        arrays |= {f"history_{k}": v for k, v in self.history_.items()} | ids_to_array("task", self.tasks_)
        if hasattr(self, "feature_names_in_"):
            arrays["feature_names"] = np.asarray(self.feature_names_in_, dtype=str)
        return arrays, {name: getattr(self, name) for name in FACTS} | {"certificate": asdict(self.certificate_)}

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = cls(**params | {"loss": loss_from_plain(params["loss"])})
        for name in FACTS:
            setattr(model, name, facts[name])
        model.coef_, model.intercept_, model._U = arrays["coef"], arrays["intercept"], arrays["U"]
        model.tasks_ = ids_from_array("task", arrays)  # type: ignore[assignment]
        model.certificate_ = Certificate(**facts["certificate"])
        model.history_ = {k.removeprefix("history_"): v for k, v in arrays.items() if k.startswith("history_")}
        if "feature_names" in arrays:
            model.feature_names_in_ = arrays["feature_names"].astype(object)
        model._describe()
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _stacked(X: Any, y: Any, tasks: ArrayLike | None) -> tuple[Any, Any, Any]:
    """Lists of tasks, one below the other; anything else as it is."""
    if not (isinstance(X, list | tuple) and len(X) and all(np.ndim(x) == 2 or sparse.issparse(x) for x in X)):
        return X, y, tasks
    if tasks is not None:
        raise ValueError("with a list of tasks there is no need for tasks; leave it out")
    if len(X) != len(y):
        raise ValueError(f"there are {len(X)} tasks in X, but {len(y)} in y")
    widths = [x.shape[1] for x in X]
    for t, (x, target) in enumerate(zip(X, y, strict=True)):
        if x.shape[1] != widths[0]:
            raise ValueError(f"all tasks need the same features: task {t} has {x.shape[1]}, task 0 has {widths[0]}")
        if x.shape[0] == 0:
            raise ValueError(f"task {t} has no rows")
        if len(target) != x.shape[0]:
            raise ValueError(f"task {t} has {x.shape[0]} rows in X, but {len(target)} in y")
    stack = sparse.vstack if any(sparse.issparse(x) for x in X) else np.vstack
    return stack(X), np.concatenate([np.asarray(t) for t in y]), np.repeat(np.arange(len(X)), [x.shape[0] for x in X])
