"""Models of tasks that have labels: which rows belong to which, when learning and when predicting."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import validate_data

from rslm._typing import Floats, Indices64
from rslm.data import Labels
from rslm.data.labels import number_ids
from rslm.estimators.persistence import Arrays, Facts, ids_from_array, ids_to_array
from rslm.estimators.task_model import TaskModel
from rslm.kernels import predict_pairs
from rslm.threads import thread_count


class NamedTasks(TaskModel):
    """Linear models with the labels of their tasks."""

    tasks_: NDArray[Any]

    def _codes(self, tasks: ArrayLike | None, n: int) -> Indices64:
        """The task of every row as a position in `tasks_`, which is set; one task if there are no labels."""
        labels = np.zeros(n, dtype=np.int64) if tasks is None else np.asarray(tasks)
        if labels.shape != (n,):
            raise ValueError(f"tasks must have {n} labels, one for every row of X; got shape {labels.shape}")
        self.tasks_, codes = number_ids(labels, "tasks")
        return codes.astype(np.int64)

    def _describe(self) -> None:
        super()._describe()
        self._labels = Labels("task", len(self.tasks_), self.tasks_)

    def _linear(self, X: Any, tasks: ArrayLike | None, unseen: str) -> Floats:
        """x_pᵀ w_t + b_t of every row p and its task t."""
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        where = self._positions(tasks, X.shape[0], unseen)
        coef = self.coef_ @ self._basis
        coef = np.vstack([coef, coef.mean(axis=0)])
        intercept = np.append(self.intercept_, self.intercept_.mean())
        rows = np.ascontiguousarray(X @ self._basis)
        products = predict_pairs(np.arange(len(rows)), where, rows, coef, thread_count(self.n_threads))
        return np.asarray(products + intercept[where])

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

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        return arrays | ids_to_array("task", self.tasks_), facts

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = super()._from_file(params, arrays, facts)
        tasks = ids_from_array("task", arrays)
        if tasks is None or len(tasks) != len(model.coef_):
            raise KeyError("labels of the tasks")
        model.tasks_ = tasks
        model._describe()
        return model


def stacked(X: Any, y: Any, tasks: ArrayLike | None) -> tuple[Any, Any, Any]:
    """Lists of tasks, one below the other; anything else as it is."""
    if not (isinstance(X, list | tuple) and len(X) and all(np.ndim(x) == 2 or sparse.issparse(x) for x in X)):
        return X, y, tasks
    if tasks is not None:
        raise ValueError("with a list of tasks there is no need for tasks; leave it out")
    if len(X) != len(y):
        raise ValueError(f"there are {len(X)} tasks in X, but {len(y)} in y")
    shapes = [np.shape(x) for x in X]
    for t, ((rows, features), target) in enumerate(zip(shapes, y, strict=True)):
        if features != shapes[0][1]:
            raise ValueError(f"all tasks need the same features: task {t} has {features}, task 0 has {shapes[0][1]}")
        if rows == 0:
            raise ValueError(f"task {t} has no rows")
        if len(target) != rows:
            raise ValueError(f"task {t} has {rows} rows in X, but {len(target)} in y")
    stack = sparse.vstack if any(sparse.issparse(x) for x in X) else np.vstack
    labels = np.repeat(np.arange(len(X)), [rows for rows, _ in shapes])
    return stack(X), np.concatenate([np.asarray(t) for t in y]), labels


def with_targets(X: Any, y: Any, tasks: ArrayLike | None, drop_missing: bool) -> tuple[Any, Any, ArrayLike | None]:
    """The rows whose target is there; those without one are dropped if that was asked for, else an error."""
    targets = np.asarray(0.0 if y is None else y)
    missing = np.isnan(targets) if targets.dtype.kind == "f" else np.zeros(targets.shape, dtype=bool)
    if targets.dtype.kind == "O" and targets.ndim == 1:
        missing = np.array([v is None or v != v for v in targets], dtype=bool)
    rows = (X if hasattr(X, "shape") else np.asarray(X)).shape[0] if missing.any() else -1
    if targets.shape != (rows,):
        return X, y, tasks  # nothing is missing, or the shapes are wrong, which is told where they are checked
    if not drop_missing:
        raise ValueError(
            f"Input y contains NaN: {missing.sum()} of {rows} targets are missing, the first at row "
            f"{int(missing.argmax())}; fit(…, drop_missing=True) leaves these rows out"
        )
    labels = None if tasks is None else np.asarray(tasks)
    if labels is not None and labels.shape == targets.shape:
        lost = np.setdiff1d(labels[missing], labels[~missing])
        if len(lost):
            raise ValueError(f"task {lost[0].item()!r} has no rows: all its targets are missing")
        labels = labels[~missing]
    keep = np.flatnonzero(~missing)
    if bool(sparse.issparse(X)):
        return sparse.csr_array(X)[keep], targets[keep], labels
    return (X.iloc[keep] if hasattr(X, "iloc") else np.asarray(X)[keep]), targets[keep], labels
