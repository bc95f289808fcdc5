"""The input of matrix completion: a matrix with missing entries, its ids and its feature names."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from rslm.data import Labels, ObservedMatrix
from rslm.estimators.base import Estimator
from rslm.estimators.choices import checked_data


class ObservedInput(TransformerMixin, Estimator):  # type: ignore[misc]
    """An estimator of a samples × features matrix with missing entries."""

    _rows: Labels
    _cols: Labels

    def _observed(self, X: Any, *, fitting: bool) -> ObservedMatrix:
        """X as observed entries; a new X must have the features that `fit` was given."""
        if on_cluster(X):
            raise TypeError(
                f"{type(X).__name__} is on the workers of a cluster; give its client too: fit(X, client=client)"
            )
        if isinstance(X, str | os.PathLike):
            X = ObservedMatrix.read(X)
        if isinstance(X, ObservedMatrix):
            if fitting:
                self._set_n_features(X.shape[1])
            elif X.shape[1] != self.n_features_in_:
                raise ValueError(f"X has {X.shape[1]} features, but fit was given {self.n_features_in_}")
            elif X.col_ids is not None and not self._cols.same(X.col_ids):
                raise ValueError("X has other column ids than fit was given, or in another order")
            return X
        kinds = [np.float64, np.float32]
        checked = checked_data(self, X, reset=fitting, accept_sparse=True, dtype=kinds, ensure_all_finite=False)
        table = X if hasattr(X, "columns") else checked  # a table has ids
        return ObservedMatrix.from_any(table, allow_empty=not fitting)

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

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the input features.

        Parameters
        ----------
        input_features : sequence of str, optional
            The names, if `fit` was given none; otherwise they must equal those that `fit` was given.
        """
        check_is_fitted(self)
        return _check_feature_names_in(self, input_features)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


def on_cluster(X: Any) -> bool:
    """Whether X is a Dask collection, or a matrix that a cluster holds."""
    return hasattr(X, "map_partitions") or hasattr(X, "cluster")
