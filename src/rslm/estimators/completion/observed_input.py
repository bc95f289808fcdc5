"""The input of matrix completion: a matrix with missing entries, its ids and its feature names."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from rslm.data import Labels, ObservedMatrix
from rslm.estimators.base import Estimator
from rslm.estimators.choices import checked_data
from rslm.estimators.completion.long_table import check_wide


class ObservedInput(Estimator):
    """An estimator of a samples × features matrix with missing entries."""

    _rows: Labels
    _cols: Labels

    def _observed(self, X: Any, *, fitting: bool, sample_weight: Any = None) -> ObservedMatrix:
        """X as observed entries with their weights; a new X must have the features that `fit` was given."""
        if on_cluster(X):
            raise TypeError(
                f"{type(X).__name__} is on the workers of a cluster; give its client too: fit(X, client=client)"
            )
        if isinstance(X, str | os.PathLike):
            column = sample_weight if isinstance(sample_weight, str) else None
            X, sample_weight = ObservedMatrix.read(X, weights=column), None if column is not None else sample_weight
        data = self._unweighted(X, fitting)
        return data if sample_weight is None else with_sample_weight(data, sample_weight)

    def _unweighted(self, X: Any, fitting: bool) -> ObservedMatrix:
        if isinstance(X, ObservedMatrix):
            if fitting:
                self._set_n_features(X.shape[1])
            elif X.shape[1] != self.n_features_in_:
                raise ValueError(f"X has {X.shape[1]} features, but fit was given {self.n_features_in_}")
            else:
                self._check_columns(X)
            return X
        if fitting:
            check_wide(X)
        kinds = [np.float64, np.float32]
        checked = checked_data(self, X, reset=fitting, accept_sparse=True, dtype=kinds, ensure_all_finite=False)
        table = X if hasattr(X, "columns") else checked  # a table has ids
        data = ObservedMatrix.from_any(table, allow_empty=not fitting)
        if not fitting:
            self._check_columns(data)
        return data

    def _check_columns(self, data: ObservedMatrix) -> None:
        """An error if columns have other ids than those of `fit`; without ids they are taken by position."""
        if data.col_ids is not None and not self._cols.same(data.col_ids):
            raise ValueError("X has other column ids than fit was given, or in another order")

    def _set_n_features(self, n: int) -> None:
        """Of data that have no feature names."""
        self.n_features_in_ = n
        self.__dict__.pop("feature_names_in_", None)

    @property
    def row_ids_(self) -> NDArray[Any] | None:
        """The ids of the samples; None if there are none."""
        check_is_fitted(self)
        return self._rows.ids

    @property
    def col_ids_(self) -> NDArray[Any] | None:
        """The ids of the features; None if there are none."""
        check_is_fitted(self)
        return self._cols.ids

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


def with_sample_weight(data: ObservedMatrix, sample_weight: Any) -> ObservedMatrix:
    """The entries with these weights: those of entries, or, as everywhere in scikit-learn, one for every sample."""
    if data.weights is not None:
        raise ValueError(
            "X has weights already, and sample_weight was given as well; leave sample_weight out, or replace the "
            "weights: X.weighted(sample_weight)"
        )
    given = sample_weight if hasattr(sample_weight, "shape") else np.asarray(sample_weight)
    if tuple(given.shape) != (data.shape[0],):
        return data.weighted(sample_weight)
    counts = data.row_counts()
    if len(data) != data.shape[0]:
        return data.weighted(data.with_values(np.repeat(np.asarray(sample_weight), counts)))
    if (counts != 1).any():
        raise ValueError(
            f"sample_weight has {len(data)} numbers, and X has as many samples as observed entries: which are "
            "weighted? Give weights of entries as a matrix, or by X.weighted(…) of an ObservedMatrix X"
        )
    return data.weighted(sample_weight)


def columns_by_id(X: Any, columns: Labels) -> Any:
    """An ObservedMatrix with ids of columns, arranged like the columns of a fit with ids; everything else as it is."""
    if not isinstance(X, ObservedMatrix) or X.col_ids is None or columns.ids is None or columns.same(X.col_ids):
        return X
    index = columns.positions(X.col_ids)[X.index].astype(np.int32)
    order = np.lexsort((index, X.rows_of_entries()))
    return replace(
        X,
        index=index[order],
        values=X.values[order],
        weights=None if X.weights is None else X.weights[order],
        shape=(X.shape[0], columns.count),
        col_ids=columns.ids,
    )


def refuse_sparse(X: Any, instead: str) -> None:
    """Raise an error if `predict` is given sparse data; `instead` says what to call."""
    if is_sparse(X):
        raise ValueError(f"predict(X) would give a dense result for sparse data; {instead}")


def is_sparse(X: Any) -> bool:
    """Whether X stores its observed entries only, and is no dense array with NaN for missing."""
    return bool(sparse.issparse(X)) or isinstance(X, ObservedMatrix)


def on_cluster(X: Any) -> bool:
    """Whether X is a Dask collection, or a matrix that a cluster holds."""
    return hasattr(X, "map_partitions") or hasattr(X, "cluster")
