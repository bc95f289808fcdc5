"""Related classifications in a common subspace; the tasks may be the pairs of classes of one classification."""

from __future__ import annotations

import os
import time
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from rslm.data import ObservedMatrix, parts
from rslm.data.labels import show_id
from rslm.estimators.choices import as_loss, checked_data, has_probabilities
from rslm.estimators.persistence import ids_from_array, ids_to_array, storable
from rslm.estimators.scikit_learn import with_callbacks
from rslm.estimators.tasks.coupling import against_the_rest, probabilities
from rslm.estimators.tasks.named_tasks import NamedTasks, stacked, with_targets, with_weight
from rslm.estimators.tasks.units import Units
from rslm.measurements import Tasks
from rslm.runtime.types import Floats, Indices64
from rslm.storage.container import Arrays, Facts


@storable
class MultiTaskClassifier(ClassifierMixin, NamedTasks):  # type: ignore[misc]
    """Linear classifications whose coefficients lie in a common subspace.

    With labels of tasks, every task separates the same two classes. Without labels it is one classification; with more
    than two classes, every pair of classes is a task. (One class against the rest would be fewer tasks, but needs a
    larger rank: on scikit-learn's digits, at rank 5, pairs classify 95 % correctly, classes against the rest 93 %.)

    Parameters
    ----------
    rank, C, effects, fit_intercept, solver, max_iter, tol, max_time, warm_start, random_state, n_threads, verbose
        As in `MultiTaskRegressor`. Pairs of classes have no common coefficients, and their intercepts are not shrunk.
    loss : str or Loss, default="logistic"
        "logistic", "hinge", "squared_hinge", or an instance.

    Attributes
    ----------
    classes_ : array
    coef_, intercept_ : arrays (n_tasks, n_features) and (n_tasks,)
        Positive for the second class; of tasks, or of the pairs of classes where there are more than two.
    tasks_ : array
        The labels of the tasks, or of shape (n_tasks, 2) the pairs of classes.
    common_coef_, common_intercept_, subspace_, loss_, C_, rank_, effects_, task_part_, held_out_, path_
    certificate_, history_, outcome_, converged_, n_iter_
        As in `MultiTaskRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from rslm import MultiTaskClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MultiTaskClassifier().fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        rank: int | str = "auto",
        C: float | str = "auto",
        *,
        loss: Any = "logistic",
        effects: Any = "auto",
        fit_intercept: bool = True,
        solver: str = "trust-region",
        max_iter: int = 1000,
        tol: float = 1e-6,
        max_time: float | None = None,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            rank,
            C,
            loss=loss,
            effects=effects,
            fit_intercept=fit_intercept,
            solver=solver,
            max_iter=max_iter,
            tol=tol,
            max_time=max_time,
            warm_start=warm_start,
            random_state=random_state,
            n_threads=n_threads,
            verbose=verbose,
        )

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
        """Learn all tasks, or all classes.

        Parameters
        ----------
        X : array, DataFrame or scipy.sparse matrix of shape (n, n_features), or a list of such, one a task
        y : array of n classes, which are words, whole numbers or booleans, or a list of such
        tasks : array of n labels, optional
        sample_weight : array of n numbers ≥ 0, or a list of such, optional
            The losses of the rows are multiplied by them: weight 2 is the row twice, a row of weight 0 is left out.
        drop_missing : bool, default=False
            Whether rows whose class is missing (NaN or None) are left out; otherwise they are an error.
        checkpoint : path, optional
            As in `MatrixCompletion.fit`.
        client : distributed.Client, optional
            The client of a Dask cluster, whose workers share the tasks.
        """
        began = time.perf_counter()
        X, y, tasks, weights = with_weight(*stacked(X, y, tasks, sample_weight))
        X, y, tasks, weights = with_targets(X, y, tasks, drop_missing, weights)
        X, y = checked_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        self.classes_, of_rows = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"at least two classes are needed, but y has one class only: {show_id(self.classes_, 0)}")
        loss = as_loss(self.loss)
        if not loss.binary:
            raise ValueError(f"{loss!r} is for real numbers; a classification needs logistic, hinge or squared_hinge")
        self._by_pairs = tasks is None and len(self.classes_) > 2
        codes = None if self._by_pairs else self._checked_codes(of_rows, tasks)
        strata = of_rows if codes is None else 2 * codes + of_rows
        units = None
        if self._has_effects:
            n_tasks = len(self._pairs()[0]) if codes is None else len(self.tasks_)
            units = Units.of(X, weights, n_tasks, bool(self.fit_intercept))
            X = units.features(X)
        if codes is None:
            data = self._pairs_as_tasks(X, of_rows, weights)
        else:
            own = bool(self.fit_intercept) and units is None
            data = Tasks(X, 2.0 * of_rows - 1.0, codes, intercept=own, weights=weights)
        how: dict[str, Any] = {"checkpoint": checkpoint, "client": client, "began": began}
        if units is None:
            self._fit_tasks(data, loss, np.zeros(data.shape[1]), strata, **how)
        else:
            self._fit_with_effects(data, loss, units, strata, located=codes is not None, **how)
        return self

    def _pairs_as_tasks(self, X: Any, of_rows: Indices64, weights: Floats | None) -> Tasks:
        first, second = self._pairs()
        self.tasks_ = self._pairs_of_classes()
        Y = np.where(of_rows[:, None] == second, 1.0, np.where(of_rows[:, None] == first, -1.0, np.nan))
        targets = ObservedMatrix.from_any(Y)
        if weights is not None:  # a row has the same weight in all pairs
            targets = targets.weighted(np.broadcast_to(weights[:, None], Y.shape))
        return Tasks.shared(X, targets, intercept=bool(self.fit_intercept))

    def _pairs_of_classes(self) -> NDArray[Any]:
        return np.stack([self.classes_[pair] for pair in self._pairs()], axis=1)

    def _pairs(self) -> tuple[Indices64, Indices64]:
        first, second = np.triu_indices(len(self.classes_), 1)
        return first, second

    def _checked_codes(self, of_rows: Indices64, tasks: ArrayLike | None) -> Indices64:
        """The positions of the tasks of all rows; every task needs rows of both classes."""
        if len(self.classes_) > 2:
            raise ValueError(
                f"tasks can have only two classes, but y has {len(self.classes_)}: "
                f"{', '.join(map(repr, self.classes_[:5].tolist()))}"
            )
        codes = self._codes(tasks, len(of_rows))
        share = np.bincount(codes, of_rows) / np.bincount(codes)
        single = np.flatnonzero((share == 0) | (share == 1))
        if len(single):
            label, only = show_id(self.tasks_, int(single[0])), show_id(self.classes_, int(share[single[0]]))
            raise ValueError(
                f"{len(single)} of {len(self.tasks_)} tasks have rows of one class only, such as task {label} with "
                f"{only}; leave them out"
            )
        return codes

    def decision_function(self, X: Any, tasks: ArrayLike | None = None, *, unseen: str = "error") -> Floats:
        """Decision values: positive for the second class, (n,).

        With more than two classes, the log-odds of each class against all others, (n, n_classes), which follow from
        the decision values f of its pairs: −log Σ exp(−f).

        Parameters
        ----------
        X : array of shape (n, n_features)
        tasks : n labels, or one for all rows; must be left out if `fit` was given no tasks and several classes
        unseen : {"error", "mean"}
            Whether a task that `fit` has not seen is an error, or predicted by the common model; without effects, by
            the mean of all tasks.
        """
        check_is_fitted(self)
        if not self._by_pairs:
            return self._linear(X, tasks, unseen)
        if tasks is not None:
            raise ValueError("this model was fitted without tasks, so it has none to predict for")
        X = checked_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        return against_the_rest(np.asarray(X @ self.coef_.T + self.intercept_), *self._pairs())

    def predict(self, X: Any, tasks: ArrayLike | None = None, *, unseen: str = "error") -> NDArray[Any]:
        """The classes of rows of X.

        Parameters
        ----------
        X, tasks, unseen : as in `decision_function`
        """
        side = self.decision_function(X, tasks, unseen=unseen)
        return np.asarray(self.classes_[side.argmax(axis=1) if self._by_pairs else (side > 0).astype(int)])

    @available_if(has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, tasks: ArrayLike | None = None, *, unseen: str = "error") -> Floats:
        """The probability of each class, (n, n_classes).

        With more than two classes, the log-odds of `decision_function` as probabilities, divided by their sum.

        Parameters
        ----------
        X, tasks, unseen : as in `decision_function`
        """
        side = self.decision_function(X, tasks, unseen=unseen)
        if self._by_pairs:
            return probabilities(side)
        p = as_loss(self.loss).probability(side)
        return np.stack([1.0 - p, p], axis=1)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, tasks: ArrayLike | None = None) -> float:
        """The fraction of rows whose class is correct.

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : array of n classes
        sample_weight : array of n weights, optional
        tasks : as in `decision_function`
        """
        return float(accuracy_score(y, self.predict(X, tasks), sample_weight=sample_weight))

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        return arrays | ids_to_array("class", self.classes_), facts | {"by_pairs": self._by_pairs}

    def _read_tasks(self, arrays: Arrays, facts: Facts) -> None:
        classes, by_pairs = ids_from_array("class", arrays), parts.flag(facts, "by_pairs")
        if classes is None or (len(classes) != 2 and not by_pairs):
            raise KeyError("classes")
        self.classes_, self._by_pairs = classes, by_pairs
        if by_pairs:
            self.tasks_ = self._pairs_of_classes()
            if len(self.tasks_) != len(self.coef_):
                raise KeyError("classes")
        else:
            super()._read_tasks(arrays, facts)
