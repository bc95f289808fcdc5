"""Linear models of tasks that have labels: the task of each row, in `fit` and in `predict`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight

from rslm.data import Labels
from rslm.data.labels import as_ids, hashable, is_missing, number_ids, show_id
from rslm.data.weights import none_if_ones
from rslm.estimators.choices import checked_data
from rslm.estimators.persistence import ids_from_array, ids_to_array
from rslm.estimators.tasks.metadata_routing import MESSAGE, check_scores_get_tasks, tasks_without_scores
from rslm.estimators.tasks.task_model import TaskModel
from rslm.kernels import predict_pairs
from rslm.runtime.threads import thread_count
from rslm.runtime.types import Floats, Indices64
from rslm.storage.container import Arrays, Facts

SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")  # of a median, where two numbers are in the middle


class NamedTasks(TaskModel):
    """Linear models with the labels of their tasks."""

    tasks_: NDArray[Any]

    _instead_of_text: ClassVar[str] = (
        "If it says to which task a row belongs, give it as tasks=, without it in X; otherwise encode it as numbers, "
        "or leave it out."
    )

    def set_params(self, **params: Any) -> Self:
        """Set parameters by their names.

        Parameters
        ----------
        **params : the parameters

        Returns
        -------
        self
        """
        tasks = tasks_without_scores()  # an error here ends a search at once, see `tasks.metadata_routing`
        if tasks is not None and len(set(np.asarray(tasks).ravel().tolist())) > 1:
            raise ValueError(MESSAGE.format(type(self).__name__))
        super().set_params(**params)
        return self

    def _codes(self, tasks: ArrayLike | None, n: int) -> Indices64:
        """Set `tasks_`; returns the position in it of the task of each row. Without labels there is one task."""
        labels = np.zeros(n, dtype=np.int64) if tasks is None else as_ids(tasks, "tasks")
        if labels.shape != (n,):
            raise ValueError(f"tasks must have {n} labels, one for every row of X; got shape {labels.shape}")
        self.tasks_, codes = number_ids(labels, "tasks")
        if len(self.tasks_) > 1:
            check_scores_get_tasks(self)
        self._labels = Labels("task", len(self.tasks_), self.tasks_)  # callbacks may predict before the fit ends
        return codes.astype(np.int64)

    def _describe(self) -> None:
        super()._describe()
        self._labels = Labels("task", len(self.tasks_), self.tasks_)

    def _linear(self, X: Any, tasks: ArrayLike | None, unseen: str) -> Floats:
        """x_pᵀ w_t + b_t of every row p and its task t."""
        X = checked_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        where = self._positions(tasks, X.shape[0], unseen)
        rows = np.ascontiguousarray(X @ self._basis)
        coef, intercept = (self.coef_ - self.common_coef_) @ self._basis, self.intercept_
        unseen_task = np.zeros(coef.shape[1]), getattr(self, "common_intercept_", 0.0)  # the common model
        if getattr(self, "effects_", None) is None:
            unseen_task = coef.mean(axis=0), intercept.mean()
        coef, intercept = np.vstack([coef, unseen_task[0]]), np.append(intercept, unseen_task[1])
        products = predict_pairs(np.arange(len(rows)), where, rows, coef, thread_count(self.n_threads))
        products += X @ self.common_coef_ if self.common_coef_.any() else 0.0
        return np.asarray(products + intercept[where])

    def _positions(self, tasks: ArrayLike | None, n: int, unseen: str) -> Indices64:
        """The row of `coef_` for each row of X; the number of tasks for an unseen task."""
        if unseen not in ("error", "mean"):
            raise ValueError(f'unseen must be "error" or "mean"; got {unseen!r}')
        if tasks is None:
            if len(self.tasks_) > 1:
                raise ValueError(
                    f"predict needs tasks: which of the {len(self.tasks_)} tasks does a row belong to? In a search of "
                    "scikit-learn, set_score_request(tasks=True) passes them on"
                )
            return np.zeros(n, dtype=np.int64)
        labels = as_ids(tasks, "tasks")
        if len(labels) == 1:  # one for all rows
            labels = np.repeat(labels, n)
        if labels.shape != (n,):
            raise ValueError(f"tasks must have {n} labels, one for every row of X; got shape {labels.shape}")
        if unseen == "error":
            return self._labels.positions(labels)
        seen = set(hashable(self.tasks_))
        known = np.array([label in seen for label in hashable(labels)], dtype=bool)
        where = np.full(n, len(self.tasks_), dtype=np.int64)
        where[known] = self._labels.positions(labels[known])
        return where

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        labels = self.tasks_ if self.tasks_.ndim == 1 else None  # pairs of classes follow from the classes
        return arrays | ids_to_array("task", labels), facts

    def _read_tasks(self, arrays: Arrays, facts: Facts) -> None:
        tasks = ids_from_array("task", arrays)
        if tasks is None or len(tasks) != len(self.coef_):
            raise KeyError("labels of the tasks")
        self.tasks_ = tasks

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = super()._from_file(params, arrays, facts)
        model._read_tasks(arrays, facts)
        model._describe()
        return model


def middles_of_tasks(y: Floats, codes: Indices64, robust: bool, weights: Floats | None = None) -> Floats:
    """The mean of the targets of each task, or the median if it has to be robust to outliers."""
    if weights is not None:
        return _weighted_middles(y, codes, robust, weights)
    counts = np.bincount(codes)
    if not robust:
        return np.asarray(np.bincount(codes, y) / counts)
    sorted_y = y[np.lexsort((y, codes))]
    starts = np.cumsum(counts) - counts
    return np.asarray(0.5 * (sorted_y[starts + (counts - 1) // 2] + sorted_y[starts + counts // 2]))


def _weighted_middles(y: Floats, codes: Indices64, robust: bool, weights: Floats) -> Floats:
    """The weighted means, or the weighted medians: those of rows that are repeated as often as their weights say."""
    totals = np.bincount(codes, weights)
    if not robust:
        return np.asarray(np.bincount(codes, (weights / totals[codes]) * y))
    order = np.lexsort((y, codes))
    y, codes, weights = y[order], codes[order], weights[order]
    middles = np.empty(len(totals))
    for t, (start, end) in enumerate(pairwise(np.searchsorted(codes, np.arange(len(totals) + 1)))):
        up_to = np.cumsum(weights[start:end])
        lower, upper = (min(int(np.searchsorted(up_to, up_to[-1] / 2, side)), len(up_to) - 1) for side in SIDES)
        middles[t] = 0.5 * (y[start + lower] + y[start + upper])
    return middles


def stacked(X: Any, y: Any, tasks: ArrayLike | None, sample_weight: Any = None) -> tuple[Any, Any, Any, Any]:
    """Lists with one item per task, stacked; other input unchanged."""
    if not (isinstance(X, list | tuple) and len(X) and all(getattr(x, "ndim", 0) == 2 for x in X)):
        return X, y, tasks, sample_weight
    if tasks is not None:
        raise ValueError("X is a list with one array per task, so tasks must not be given; leave it out")
    if y is None or len(X) != len(y):
        raise ValueError(f"there are {len(X)} tasks in X, but {'none' if y is None else len(y)} in y")
    shapes = [np.shape(x) for x in X]
    for t, ((rows, features), target) in enumerate(zip(shapes, y, strict=True)):
        if features != shapes[0][1]:
            raise ValueError(f"all tasks need the same features: task {t} has {features}, task 0 has {shapes[0][1]}")
        if rows == 0:
            raise ValueError(f"task {t} has no rows")
        if len(target) != rows:
            raise ValueError(f"task {t} has {rows} rows in X, but {len(target)} in y")
    labels = np.repeat(np.arange(len(X)), [rows for rows, _ in shapes])
    if isinstance(sample_weight, list | tuple) and [np.shape(w) for w in sample_weight] == [(n,) for n, _ in shapes]:
        sample_weight = np.concatenate([np.asarray(w) for w in sample_weight])
    return _stacked_rows(X), np.concatenate([np.asarray(t) for t in y]), labels, sample_weight


def _stacked_rows(X: Any) -> Any:
    """The rows of all tasks; tables must have the same columns in the same order."""
    names = [list(x.columns) if hasattr(x, "columns") else None for x in X]
    for t, own in enumerate(names):
        if own != names[0]:
            raise ValueError(f"all tasks need the same features in the same order: task {t} has {own}, not {names[0]}")
    if hasattr(X[0], "iloc"):
        import pandas as pd  # type: ignore[import-untyped, unused-ignore]

        return pd.concat(X, ignore_index=True)
    if any(bool(sparse.issparse(x)) for x in X):
        return sparse.vstack(X, format="csr")
    return np.vstack(X)


def with_weight(
    X: Any, y: Any, tasks: ArrayLike | None, sample_weight: Any
) -> tuple[Any, Any, ArrayLike | None, Floats | None]:
    """The rows without those of weight 0, and the weights of the others; None if all are 1."""
    if sample_weight is None or y is None:
        return X, y, tasks, None
    given = np.ravel(np.asarray(sample_weight))
    numbers = given if given.dtype.kind in "fiu" else np.empty(0)  # others are refused below
    wrong = np.flatnonzero(~((numbers >= 0) & (numbers < np.inf)))
    if len(wrong):
        raise ValueError(
            f"{len(wrong)} of {len(given)} sample weights are negative, NaN or infinite: the first is "
            f"{given[wrong[0]]:g} at row {wrong[0]}. A weight must be a finite number ≥ 0; a row of weight 0 is left "
            "out."
        )
    weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64))
    if not weights.any():  # older versions of scikit-learn do not say so
        raise ValueError("Sample weights must contain at least one non-zero number.")
    left_out = weights == 0
    if left_out.any():
        found = without_rows(X, y, tasks, left_out, "have weight 0")
        if found is None:
            return X, y, tasks, None  # the shapes are wrong, which later checks refuse
        X, y, tasks = found
        weights = weights[~left_out]
    return X, y, tasks, none_if_ones(weights)


def with_targets(
    X: Any, y: Any, tasks: ArrayLike | None, drop_missing: bool, weights: Floats | None = None
) -> tuple[Any, Any, ArrayLike | None, Floats | None]:
    """The rows without those whose target is missing; an error if there are any and `drop_missing` is False."""
    targets = np.asarray(0.0 if y is None else y)
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets.ravel()
    if y is not None and targets.ndim != 1:
        raise ValueError(
            f"y must have shape (n,), one target for every row of X; got {targets.shape}. ReducedRankRegressor is for "
            "several targets of the same rows"
        )
    missing = np.isnan(targets) if targets.dtype.kind == "f" else np.zeros(targets.shape, dtype=bool)
    if targets.dtype.kind == "O" and targets.ndim == 1:
        missing = np.array([is_missing(v) for v in targets], dtype=bool)
    rows = (X if hasattr(X, "shape") else np.asarray(X)).shape[0] if missing.any() else -1
    if targets.shape != (rows,):
        return X, y, tasks, weights  # nothing is missing, or the shapes are wrong, which later checks refuse
    if not drop_missing:
        raise ValueError(
            f"Input y contains NaN: {missing.sum()} of {rows} targets are missing, the first at row "
            f"{int(missing.argmax())}; fit(…, drop_missing=True) leaves these rows out"
        )
    found = without_rows(X, targets, tasks, missing, "are missing")
    if found is None:
        return X, y, tasks, weights
    return *found, None if weights is None else none_if_ones(weights[~missing])


def without_rows(
    X: Any, y: Any, tasks: ArrayLike | None, left_out: NDArray[np.bool_], why: str
) -> tuple[Any, Any, ArrayLike | None] | None:
    """X, y and tasks without some rows; None if these are not rows of them, which later checks refuse."""
    rows, targets = len(left_out), np.asarray(y)
    if targets.shape[:1] != (rows,):
        return None
    labels = np.zeros(rows, dtype=np.int64) if tasks is None else as_ids(tasks, "tasks")
    if len(labels) != rows:
        raise ValueError(f"tasks must have {rows} labels, one for every row of X; got {len(labels)}")
    kept = set(hashable(labels[~left_out]))
    lost = next((k for k in np.flatnonzero(left_out) if hashable(labels[k : k + 1])[0] not in kept), None)
    if lost is not None:
        what = "y has no target that is there" if tasks is None else f"task {show_id(labels, int(lost))} has no rows"
        raise ValueError(f"{what}: all its {'targets' if 'missing' in why else 'rows'} {why}")
    keep = np.flatnonzero(~left_out)
    left = None if tasks is None else labels[keep]
    if bool(sparse.issparse(X)):
        return sparse.csr_array(X)[keep], targets[keep], left
    if hasattr(X, "iloc"):
        return X.iloc[keep], targets[keep], left
    array = np.asarray(X)
    return None if array.ndim == 0 else (array[keep], targets[keep], left)
