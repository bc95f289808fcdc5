"""The input of matrix completion: a matrix with missing entries, its ids and its feature names."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from rslm.data import Labels, ObservedMatrix
from rslm.data.labels import Ids, hashable, show_id
from rslm.estimators.base import Estimator
from rslm.estimators.choices import checked_data
from rslm.estimators.completion.long_table import check_wide
from rslm.estimators.warn import warn_caller


class ObservedInput(Estimator):
    """An estimator of a samples × features matrix with missing entries."""

    _rows: Labels
    _cols: Labels

    _instead_of_text: ClassVar[str] = (
        "If every line is one entry, use ObservedMatrix.from_ratings(rows, columns, values); otherwise encode the "
        "column as numbers, or leave it out, for example by scikit-learn's ColumnTransformer."
    )

    def _observed(self, X: Any, *, fitting: bool, sample_weight: Any = None, by_ids: bool = False) -> ObservedMatrix:
        """X as observed entries with their weights; a new X must have the features that `fit` was given.

        With `by_ids`, an ObservedMatrix with ids may have some of them only, in any order.
        """
        if on_cluster(X):
            raise TypeError(
                f"{type(X).__name__} is on the workers of a cluster; give its client too: fit(X, client=client)"
            )
        if isinstance(X, str | os.PathLike):
            column = sample_weight if isinstance(sample_weight, str) else None
            X, sample_weight = ObservedMatrix.read(X, weights=column), None if column is not None else sample_weight
        if by_ids and isinstance(X, ObservedMatrix):  # the weights are in the order of its entries, and move with them
            X = columns_by_id(X if sample_weight is None else with_sample_weight(X, sample_weight), self._cols)
            sample_weight = None
        data = self._unweighted(X, fitting)
        return data if sample_weight is None else with_sample_weight(data, sample_weight)

    def _unweighted(self, X: Any, fitting: bool) -> ObservedMatrix:
        if isinstance(X, ObservedMatrix):
            if fitting:
                self._set_n_features(X.shape[1])
            elif X.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X has {X.shape[1]} features, but fit was given {self.n_features_in_}{self._arranged(X)}"
                )
            else:
                self._check_columns(X, self._arranged(X))
            return X
        if fitting:
            check_wide(X)
        kinds = [np.float64, np.float32]
        checked = checked_data(self, X, reset=fitting, accept_sparse=True, dtype=kinds, ensure_all_finite=False)
        table = X if hasattr(X, "columns") else checked  # a table has ids
        data = ObservedMatrix.from_any(table, allow_empty=not fitting)
        if not fitting:
            self._check_columns(data, "; X[model.col_ids_] has the columns of the fit, if they are all there")
        return data

    def _check_columns(self, data: ObservedMatrix, advice: str) -> None:
        """An error if columns have other ids than those of `fit`; without ids they are taken by position."""
        if data.col_ids is not None and not self._cols.same(data.col_ids):
            raise ValueError(f"X has other column ids than fit was given, or in another order{advice}")

    def _arranged(self, X: ObservedMatrix) -> str:
        """How X gets the columns of the fit, if both have ids."""
        both = X.col_ids is not None and self._cols.ids is not None
        return "; X.with_columns(model.col_ids_) has the columns of the fit, in their order" if both else ""

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


def columns_by_id(X: Any, columns: Labels, *, leave_out: bool = False) -> Any:
    """An ObservedMatrix with ids of columns, arranged like the columns of a fit with ids; everything else as it is.

    Entries of unknown columns are an error, or left out with a warning, unless all are unknown.
    """
    if not isinstance(X, ObservedMatrix) or X.col_ids is None or columns.ids is None or columns.same(X.col_ids):
        return X
    places = columns.places(X.col_ids)
    unknown = np.flatnonzero(places < 0)
    if len(unknown):
        first, known = show_id(X.col_ids, unknown[0]), (places >= 0)[X.index]
        if not leave_out or (len(X) and not known.any()):
            raise ValueError(
                f"{len(unknown)} of {X.shape[1]} columns of X are unknown to the model, the first is {first}, and note "
                "that 1 and '1' are different ids. Leave their entries out: rslm.evaluate.align(X, model) keeps known "
                "rows and columns; to keep new rows, build X of the entries whose columns are in model.col_ids_. Parts "
                "that rslm.data.holdout makes of one matrix have the same columns"
            )
        if not known.all():
            warn_caller(
                f"{np.count_nonzero(~known)} of {len(X)} entries of X are left out: their columns are unknown to the "
                f"model, the first is {first}"
            )
        X = X.subset(known)
    index = places[X.index].astype(np.int32)
    order = np.lexsort((index, X.rows_of_entries()))
    return replace(
        X,
        index=index[order],
        values=X.values[order],
        weights=None if X.weights is None else X.weights[order],
        shape=(X.shape[0], columns.count),
        col_ids=columns.ids,
    )


def check_rows_alike(X: Any, rows: Labels) -> None:
    """An error if some rows of an ObservedMatrix are those of a fit with ids and others are not.

    Otherwise a single unknown row would make new samples of all.
    """
    if not isinstance(X, ObservedMatrix) or X.row_ids is None or rows.ids is None:
        return
    unknown = _unknown(X.row_ids, rows)
    if 0 < len(unknown) < X.shape[0]:
        raise ValueError(
            f"{len(unknown)} of {X.shape[0]} rows of X are unknown to the model, the first is "
            f"{show_id(X.row_ids, unknown[0])}, and the others are rows of its fit. Leave unknown ones out, as "
            "rslm.evaluate.align(X, model) does, or score them apart, as new samples"
        )


def _unknown(ids: Ids, labels: Labels) -> list[int]:
    """The positions of ids that are none of the labels."""
    assert labels.ids is not None
    known = set(hashable(labels.ids))
    return [at for at, name in enumerate(hashable(ids)) if name not in known]


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
