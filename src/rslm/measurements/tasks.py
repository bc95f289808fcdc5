"""Linear regressions: (M W)_p = x_pᵀ w_t for row p of a feature matrix X, which belongs to task t.

The observations are entries (p, t) of X W, with several t for a row p where tasks share their rows. With F = X U in
place of U, the solvers for entries can be used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data import ObservedMatrix
from rslm.kernels import Columns, FeatureRows
from rslm.measurements.base import Measurement
from rslm.measurements.entries import Entries
from rslm.measurements.features import FeatureMatrix
from rslm.runtime.types import Floats, Indices64

OFFSET = 1e3  # value of the constant feature for intercepts, where they are not eliminated: see `lift`
WIDE = 4  # entries of a d × T array per feature value of the observations, above which it wastes memory


class Tasks(Measurement):
    """Rows of features with their targets, each of one task.

    Parameters
    ----------
    X : array or scipy.sparse matrix of shape (n, d)
        All rows of all tasks, in any order; it is not copied.
    y : array of shape (n,)
    tasks : array of n whole numbers
        Which task a row belongs to: 0 … T − 1.
    intercept : bool
        Whether every task has an intercept, which is not penalised.
    weights : array of n positive numbers, optional
        The losses of the rows are multiplied by them: weight 2 is the row twice. All 1 if None.
    """

    traits = frozenset({"features", "tasks"})
    couples_columns = False
    locatable = True

    def __init__(self, X: Any, y: Any, tasks: Any, *, intercept: bool = False, weights: Any = None) -> None:
        codes = np.asarray(tasks)
        targets = np.asarray(y, dtype=np.float64)
        features = FeatureMatrix(X)
        n = features.shape[0]
        if codes.shape != (n,) or codes.dtype.kind not in "iu" or (n and codes.min() < 0):
            raise ValueError(
                f"tasks must be {n} whole numbers ≥ 0, one for every row of X; got {codes.dtype} {codes.shape}"
            )
        if targets.shape != (n,):
            raise ValueError(f"y must have shape ({n},), one target for every row of X; got {targets.shape}")
        of_rows = None if weights is None else np.asarray(weights, dtype=np.float64)
        if of_rows is not None and not (of_rows.shape == (n,) and (of_rows > 0).all() and np.isfinite(of_rows).all()):
            got = f"got shape {of_rows.shape}"
            if of_rows.shape == (n,):
                k = int(np.argmin((of_rows > 0) & np.isfinite(of_rows)))
                got = f"weights[{k}] is {of_rows[k]}"
            raise ValueError(
                f"weights must be {n} positive numbers, one for every row of X; {got}. Leave rows of weight 0 out"
            )
        in_order = bool((codes[1:] >= codes[:-1]).all())
        order = np.arange(n) if in_order else np.argsort(codes, kind="stable")
        counts = np.bincount(codes)
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            raise ValueError(f"task {int(empty[0])} has no rows")
        indptr = np.concatenate([[0], np.cumsum(counts)])
        if not in_order:
            targets, of_rows = targets[order], None if of_rows is None else of_rows[order]
        self._set(features, indptr, order, targets, intercept, of_rows)

    @classmethod
    def shared(cls, X: Any, Y: Any, *, intercept: bool = False) -> Tasks:
        """All tasks share the rows of X; column t of Y, an array with NaN for missing or a sparse matrix, is task t.

        The weights of an ObservedMatrix Y become those of the observations.
        """
        features, by_columns = FeatureMatrix(X), ObservedMatrix.from_any(Y).transposed()
        if by_columns.shape[1] != features.shape[0]:
            raise ValueError(f"X has {features.shape[0]} rows, but Y has {by_columns.shape[1]}")
        tasks = cls.__new__(cls)
        tasks._set(features, by_columns.indptr, by_columns.index, by_columns.values, intercept, by_columns.weights)
        return tasks

    @classmethod
    def of_part(
        cls,
        X: Any,
        indptr: NDArray[Any],
        index: NDArray[Any],
        values: Floats,
        intercept: bool,
        mean: Floats,
        narrow: bool,
        weights: Floats | None = None,
    ) -> Tasks:
        """A part of the tasks, with their rows of X; `mean` and `narrow` are those of all tasks.

        The slice indptr[t]:indptr[t + 1] of `index`, `values` and `weights` holds the rows of X, the targets and the
        weights of task t.
        """
        tasks = cls.__new__(cls)
        tasks._set(FeatureMatrix(X), indptr, index, values, intercept, weights)
        tasks.features.mean, tasks.narrow = mean, narrow
        return tasks

    def _set(
        self,
        X: FeatureMatrix,
        indptr: NDArray[Any],
        index: NDArray[Any],
        values: Floats,
        intercept: bool,
        weights: Floats | None,
    ) -> None:
        self.features, self.intercept = X, intercept
        self.columns = Columns(indptr.astype(np.int64), index.astype(np.int32), X.shape[0])
        self.values = values
        self.weights: Floats | None = weights

    @property
    def shape(self) -> tuple[int, int]:
        """(d, T)"""
        return self.features.shape[1], self.columns.shape[1]

    def of_rows(self) -> Entries:
        """The same observations, as entries of F Vᵀ."""
        return Entries.of_columns(self.columns, self.values)._copy(weights=self.weights)

    @cached_property
    def narrow(self) -> bool:
        """Whether a d × T array has at most `WIDE` times as many entries as all observations have feature values."""
        d, T = self.shape
        return d * T <= WIDE * len(self) * self.features.stored / self.features.shape[0]

    @cached_property
    def rows(self) -> FeatureRows:
        """The rows of X in the form that the kernels take."""
        return self.features.rows()

    @cached_property
    def counts(self) -> Indices64:
        """Number of observations of every task."""
        return np.diff(self.columns.indptr)

    def means(self, values: Floats) -> Floats:
        """The mean over every task of `values`, one per observation; 0 for a task without observations."""
        totals = np.bincount(self.places()[1], values, self.shape[1])
        return np.asarray(totals / np.maximum(self.counts, 1))

    def centred(self, values: Floats) -> Floats:
        """The `values`, one per observation, minus the mean over their task."""
        return np.asarray(values - np.repeat(self.means(values), self.counts))

    def lift(self, U: Floats, threads: int, *, direction: bool = False) -> Floats:
        """F = X U, by `threads` threads.

        With intercepts the mean of all rows is subtracted, and a constant column, 1000, is appended. Its coefficient in
        V is b/1000 for the intercept b of a task, so that its penalty ½(b/1000)² is negligible for centred targets of
        size 1. The column is 0 for a `direction`, because it does not depend on U.
        """
        F = self.features.times(U, threads)
        if not self.intercept:
            return F
        F -= self.features.mean @ U
        return np.hstack([F, np.full((len(F), 1), 0.0 if direction else OFFSET)])

    def parted(self, U: Floats, V: Floats) -> tuple[Floats, Floats | None]:
        """V without the coefficients of the constant column of F, and the intercepts that they mean at U."""
        if not self.intercept:
            return V, None
        rest = np.ascontiguousarray(V[:, :-1])
        return rest, np.asarray(OFFSET * V[:, -1] - rest @ (self.features.mean @ U))

    def lower(self, G: Floats, threads: int) -> Floats:
        """The adjoint of `lift` for directions, at G of the shape of F, by `threads` threads."""
        if not self.intercept:
            return self.features.transposed_times(G, threads)
        G = np.ascontiguousarray(G[:, :-1])
        return self.features.transposed_times(G, threads) - np.outer(self.features.mean, G.sum(axis=0))

    def predict(self, U: Floats, V: Floats, threads: int, intercepts: Floats | None = None) -> Floats:
        """x_pᵀ U v_t + b_t of every observation, with rows v_t of V and `intercepts` b_t, by `threads` threads.

        Computes U v_t of every task first, or, where many tasks share their rows, x_pᵀ U of every row.
        """
        if self.narrow and len(self) < U.shape[1] * self.features.shape[0]:
            w = self.columns.predict_tasks(self.rows, U, V, threads)
        else:
            w = self.columns.predict(self.features.times(U, threads), V, threads)
        if intercepts is not None:
            w += np.repeat(intercepts, self.counts)
        return w

    def apply(self, X: Floats, V: Floats, threads: int = 1) -> Floats:
        return self.predict(X, V, threads)

    def adjoint_times(self, z: Floats, Y: Floats, threads: int = 1) -> Floats:
        return self.features.transposed_times(self.columns.scatter(z, Y, threads), threads)

    def adjoint_transposed_times(self, z: Floats, X: Floats, threads: int = 1) -> Floats:
        return self.columns.gather(z, self.features.times(X, threads), threads)

    def by_column(self, b: Floats) -> Floats:
        return np.repeat(b, self.counts)

    def sums_by_column(self, z: Floats) -> Floats:
        return np.bincount(self.places()[1], z, self.shape[1]).astype(np.float64)

    @property
    def gain(self) -> float:
        return float(self.features.squares().sum()) / self.features.shape[0]

    def arrays(self) -> dict[str, list[NDArray[Any]]]:
        positions: list[NDArray[Any]] = [self.columns.indptr, self.columns.index]
        arrays = {"values": [self.values], "positions": positions, "features": self.features.arrays()}
        return arrays if self.weights is None else arrays | {"weights": [self.weights]}

    def adjoint_gram(
        self, z: Floats, column_weights: Floats | None, threads: int
    ) -> Callable[[Floats, Floats | None], Floats]:
        columns, features = self.columns, self.features
        values = columns.divided(z, column_weights)
        S = self.dual_matrix(values, threads)

        def gram(X: Floats, Y: Floats | None = None) -> Floats:
            if S is None:
                F = features.times(X, threads)
                return features.transposed_times(columns.gram(values, F, threads, Y), threads)
            product: Floats = S @ X
            if Y is not None:
                Y += product
                product = Y
            return np.asarray(S.T @ product)

        return gram

    def dual_matrix(self, z: Floats, threads: int) -> Floats | None:
        """Sᵀ with rows X_tᵀ z_t, for z with one number per observation, by `threads` threads.

        None where it would have more entries than the data.
        """
        d, T = self.shape
        if d * T > max(self.features.stored, len(self)):
            return None
        return self.columns.features_of_tasks(self.rows, z, threads)

    def located(self) -> tuple[Tasks, Floats]:
        """The same tasks with one more feature, which is 1, and the unit vector of that feature."""
        features = self.features.with_constant
        other = self._copy(features=features, rows=features.rows(), narrow=self.narrow)
        return other, np.eye(1, features.shape[1], features.shape[1] - 1)[0]

    def groups(self, side: int) -> Indices64:
        if side == 0:
            raise TypeError("an observation of a task belongs to no row of W")
        return self.places()[1]

    def places(self) -> tuple[Indices64, Indices64]:
        """Row of X and task of every observation."""
        return self.columns.places()

    def __len__(self) -> int:
        return self.columns.entries

    def __repr__(self) -> str:
        return f"Tasks({self.shape[1]} tasks, {self.shape[0]} features, {len(self)} observations)"
