"""A matrix known at an explicit set of entries: the form to which all data are converted first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rslm.data.checks import LARGEST, check_lengths, check_range, checked_shape, integers, real_numbers
from rslm.data.convert import (
    Duplicates,
    compress,
    from_dense,
    from_sparse,
    in_order,
    labels_of,
    place_of,
    sparse_in_order,
    table_to_array,
    to_array,
)
from rslm.data.labels import Ids, Labels, as_ids, number_ids
from rslm.data.shown import observed_html
from rslm.data.weights import check_weights, compress_weighted, none_if_ones, weights_given, weights_of_entries
from rslm.kernels.scratch import scratch_like
from rslm.runtime.types import Floats, Indices32, Indices64

BLOCK = 1 << 22  # entries processed at a time
LARGEST_ARRAY = 10**8  # entries of a dense array that is made unasked


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ObservedMatrix:
    """An n_samples × n_features matrix of which only the entries in an explicit index set are known.

    A stored zero is an observation; what is not stored is missing. Entries are stored row by row, with the columns of
    a row ascending and without repetition. Build one with a `from_…` method: the constructor does not check its
    arguments. Treat it as immutable; arrays may be shared with the input and with `to_csr()`.

    Entries may have weights, by which their losses are multiplied: weight 2 is the entry twice.
    """

    indptr: Indices64  #: (n_samples + 1): row i owns the entries indptr[i] … indptr[i + 1] − 1
    index: Indices32  #: the column of every entry
    values: Floats  #: float64 or float32
    shape: tuple[int, int]
    row_ids: Ids | None = None  #: the user's id of every row
    col_ids: Ids | None = None
    weights: Floats | None = None  #: one positive weight per entry, float64, in the order of `values`; None: all 1
    #: Whether the entries were given in another order than that of `values`. Then an array with one number for every
    #: entry is refused wherever one is taken, as it may be in either order; give a matrix instead.
    reordered: bool = field(default=False, kw_only=True)
    _rows: Labels = field(init=False)
    _cols: Labels = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rows", Labels("row", self.shape[0], self.row_ids))
        object.__setattr__(self, "_cols", Labels("column", self.shape[1], self.col_ids))

    @classmethod
    def from_triplets(
        cls,
        rows: ArrayLike,
        cols: ArrayLike,
        values: ArrayLike,
        shape: tuple[int, int] | None = None,
        duplicates: Duplicates = "error",
        weights: ArrayLike | None = None,
    ) -> Self:
        """Entries (rows[k], cols[k]) = values[k] with positions that count from 0.

        Without `shape`, the largest positions determine it. `duplicates` says how a pair that occurs more than once
        is treated: it is an "error", or becomes the "sum" or "mean" of its values, or the "last" one in the order
        given.

        `weights[k]` multiplies the loss of the entry. An entry of weight 0 is left out; its row and column stay. With
        weights, the "mean" of a repeated pair is the weighted one, and its weight their sum; the "last" one keeps its
        own; the "sum" needs equal weights, and keeps that weight.
        """
        i, j = integers(rows, "rows"), integers(cols, "cols")
        y = real_numbers(np.asarray(values), "values")
        given = {} if weights is None else {"weights": weights_given(weights)}
        check_lengths(rows=i, cols=j, values=y, **given)
        if shape is None:
            shape = max(int(i.max()) + 1, 1), max(int(j.max()) + 1, 1)
        size = checked_shape(shape)
        check_range(i, size[0], "rows")
        check_range(j, size[1], "cols")
        return cls._of_entries(i, j, y, given.get("weights"), size, duplicates)

    @classmethod
    def from_ratings(
        cls,
        row_ids: Iterable[Any],
        col_ids: Iterable[Any],
        values: ArrayLike,
        duplicates: Duplicates = "error",
        weights: ArrayLike | None = None,
    ) -> Self:
        """A table of (row id, column id, value) where an id is any hashable object: a name, a number, a tuple.

        Ids are numbered in sorted order if they can be compared with one another, otherwise in order of first
        appearance.

        Parameters
        ----------
        row_ids, col_ids : sequences of n ids
        values : n numbers
        duplicates : {"error", "sum", "mean", "last"}
            As in `from_triplets`.
        weights : n numbers ≥ 0, optional
            As in `from_triplets`.
        """
        given_rows, given_cols = as_ids(row_ids, "row_ids"), as_ids(col_ids, "col_ids")
        y = real_numbers(np.asarray(values), "values")
        given = {} if weights is None else {"weights": weights_given(weights)}
        check_lengths(row_ids=given_rows, col_ids=given_cols, values=y, **given)
        known_rows, i = number_ids(given_rows, "row_ids")
        known_cols, j = number_ids(given_cols, "col_ids")
        size = checked_shape((len(known_rows), len(known_cols)))
        return cls._of_entries(i, j, y, given.get("weights"), size, duplicates, known_rows, known_cols)

    @classmethod
    def _of_entries(
        cls,
        rows: NDArray[np.integer[Any]],
        cols: NDArray[np.integer[Any]],
        values: Floats,
        weights: Floats | None,
        shape: tuple[int, int],
        duplicates: Duplicates,
        row_ids: Ids | None = None,
        col_ids: Ids | None = None,
    ) -> Self:
        moved = not in_order(rows, cols)
        if weights is None:
            found = compress(rows, cols, values, shape, duplicates, row_ids, col_ids)
            return cls(*found, shape, row_ids, col_ids, reordered=moved)
        weighted = compress_weighted(rows, cols, values, weights, shape, duplicates, row_ids, col_ids)
        return cls(*weighted[:3], shape, row_ids, col_ids, none_if_ones(weighted[3]), reordered=moved)

    @classmethod
    def from_any(cls, X: Any, *, allow_empty: bool = False) -> ObservedMatrix:
        """An X of any kind that `fit` accepts; a matrix without any observed entry only with `allow_empty`.

        - an ObservedMatrix: returned as it is
        - scipy.sparse, any format: stored entries are observed, explicit zeros included
        - dense array, nested list, masked array, DataFrame: NaN (or masked) is missing. The index and the columns
          of a DataFrame become ids unless they are plain ranges from 0.
        """
        if isinstance(X, ObservedMatrix):
            return X
        if sparse.issparse(X):
            return cls(*from_sparse(X), reordered=not sparse_in_order(X))._not_empty(allow_empty)
        if hasattr(X, "to_numpy") and hasattr(X, "columns"):
            row_ids, col_ids = labels_of(getattr(X, "index", None)), labels_of(X.columns)
            array = table_to_array(X)
        else:
            row_ids = col_ids = None
            array = to_array(X)
        return cls(*from_dense(array, row_ids, col_ids), row_ids, col_ids)._not_empty(allow_empty)

    def _not_empty(self, allow_empty: bool) -> Self:
        if len(self) or allow_empty:
            return self
        raise ValueError(
            f"Nothing is observed: X is {self.shape[0]} × {self.shape[1]} without a stored entry or with NaN only. "
            "Give at least one entry."
        )

    @classmethod
    def read(cls, path: str | PathLike[str], **options: Any) -> ObservedMatrix:
        """Read a text table, Parquet, MatrixMarket, NumPy's npz or a MATLAB file.

        Parameters
        ----------
        path : path, or "-" for standard input
        **options
            As in `rslm.data.read_source`.
        """
        from rslm.data.files import read_source

        return read_source(path, **options).data

    def with_values(self, values: Floats) -> Self:
        """The same entries with other values, and with the same weights."""
        return replace(self, values=values)

    def weighted(self, sample_weight: Any) -> Self:
        """The same entries with these weights, which replace those that there are.

        An entry of weight 0 is left out; its row and column stay. If all weights are 1, `weights` is None.

        Parameters
        ----------
        sample_weight : numbers ≥ 0, or None for no weights
            - a 1-D array: one weight for every entry, row by row in the order of `values`; an error if the entries
              were given in another order (`reordered`), as those of most tables are
            - an array or DataFrame of the shape of this matrix, of which only the observed entries are read
            - a scipy.sparse matrix in any format, or an ObservedMatrix: one weight is stored for every observed entry,
              also where it is 0, and no other
            - a number: the weight of all entries
        """
        if sample_weight is None:
            return replace(self, weights=None)
        weights = weights_of_entries(self, sample_weight)
        check_weights(weights, lambda at: place_of(at, self.indptr, self.index, self.row_ids, self.col_ids))
        given, kept = replace(self, weights=weights), weights > 0
        left = given if kept.all() else given.subset(kept)
        assert left.weights is not None
        return replace(left, weights=none_if_ones(left.weights))

    def subset(self, chosen: NDArray[np.bool_]) -> Self:
        """Some of the entries, in a matrix of the same shape; arrays on disk stay on disk.

        Parameters
        ----------
        chosen : array of bool
            Whether an entry is kept, for every entry in the order of `values`.
        """
        before, count = 0, int(np.count_nonzero(chosen))
        index, values = scratch_like(self.index, length=count), scratch_like(self.values, length=count)
        weights = None if self.weights is None else scratch_like(self.weights, length=count)
        ends = np.empty(len(self.indptr), dtype=np.int64)
        for start in range(0, max(len(chosen), 1), BLOCK):
            block = slice(start, start + BLOCK)
            mine = np.flatnonzero(chosen[block])
            to = slice(before, before + len(mine))
            index[to], values[to] = self.index[block][mine], self.values[block][mine]
            if weights is not None and self.weights is not None:
                weights[to] = self.weights[block][mine]
            rows = slice(*np.searchsorted(self.indptr, [start, start + BLOCK]))
            ends[rows] = before + np.searchsorted(mine, self.indptr[rows] - start)
            before += len(mine)
        ends[self.indptr >= len(chosen)] = count
        return replace(self, indptr=ends, index=index, values=values, weights=weights)

    def some_rows(self, at: Indices64) -> ObservedMatrix:
        """Some rows without their ids, in memory; `at` are their positions, in ascending order."""
        counts = self.row_counts()[at]
        indptr: Indices64 = np.concatenate([[0], np.cumsum(counts)])
        own = np.repeat(self.indptr[at] - indptr[:-1], counts) + np.arange(indptr[-1])
        weights = None if self.weights is None else np.asarray(self.weights[own])
        index, values = np.asarray(self.index[own]), np.asarray(self.values[own])
        parts = indptr, index, values, (len(at), self.shape[1])
        return ObservedMatrix(*parts, col_ids=self.col_ids, weights=weights, reordered=self.reordered)

    @property
    def n_observed(self) -> int:
        """Number of observed entries."""
        return len(self.index)

    @property
    def density(self) -> float:
        """Fraction of the entries that is observed, between 0 and 1."""
        return self.n_observed / (self.shape[0] * self.shape[1])

    def __len__(self) -> int:
        return self.n_observed

    def __repr__(self) -> str:
        percent = 100 * self.density
        shown = f"{percent:.1f}" if percent >= 0.1 else f"{percent:.2g}"
        return f"ObservedMatrix {self.shape[0]} × {self.shape[1]}, {self.n_observed} observed ({shown} %)"

    def _repr_html_(self) -> str:
        return observed_html(self)

    def row_of(self, ids: Any) -> Indices64:
        """The positions of rows given by their ids; if the matrix has no ids, the given positions, checked."""
        return self._rows.positions(ids)

    def col_of(self, ids: Any) -> Indices64:
        """The positions of columns given by their ids; if the matrix has no ids, the given positions, checked."""
        return self._cols.positions(ids)

    def row_counts(self) -> Indices64:
        """Number of entries of every row."""
        return np.diff(self.indptr)

    def col_counts(self) -> Indices64:
        """Number of entries of every column."""
        counts = np.zeros(self.shape[1], dtype=np.int64)
        for start in range(0, len(self.index), BLOCK):  # in blocks, as bincount copies its argument to 64 bits
            counts += np.bincount(self.index[start : start + BLOCK], minlength=self.shape[1])
        return counts

    def rows_of_entries(self) -> Indices32:
        """The row of every entry, in the order of `index`."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int32), self.row_counts())

    def to_csr(self) -> sparse.csr_array:
        """As a sparse array of SciPy, where a missing entry counts as zero. It shares `values` and `index`."""
        # With a 64-bit indptr, SciPy would copy the columns to 64 bits too.
        indptr = self.indptr.astype(np.int32) if self.n_observed <= LARGEST else self.indptr
        csr = sparse.csr_array((self.values, self.index, indptr), shape=self.shape)
        csr.has_canonical_format = True
        return csr

    def weights_to_csr(self) -> sparse.csr_array:
        """The weights of the entries as a sparse array, which `weighted` accepts; 1 where there are none."""
        weights = np.ones(self.n_observed) if self.weights is None else self.weights
        return self.with_values(weights).to_csr()

    def to_dense(self) -> Floats:
        """As an array with NaN where nothing is observed."""
        dense = np.full(self.shape, np.nan, dtype=self.values.dtype)
        dense[self.rows_of_entries(), self.index] = self.values
        return dense

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """As `to_dense`, for NumPy and scikit-learn, unless the array would be very large."""
        if copy is False:
            raise ValueError("an ObservedMatrix becomes an array only by a copy; leave copy=False out")
        if self.shape[0] * self.shape[1] > LARGEST_ARRAY:
            raise ValueError(
                f"{self!r} would be a dense array of {self.shape[0] * self.shape[1]:.2g} entries; give X.to_csr() to "
                "split rows or to cross-validate, rslm.data.holdout(X, 0.1) splits entries, and X.to_dense() makes the "
                "array if there is memory for it"
            )
        return self.to_dense().astype(dtype or self.values.dtype, copy=False)

    # Comparisons with numbers are dense arrays, False where nothing is observed: `outlier_scores_ > 10`.

    def __gt__(self, other: Any) -> NDArray[np.bool_]:
        return np.asarray(np.asarray(self) > other)

    def __ge__(self, other: Any) -> NDArray[np.bool_]:
        return np.asarray(np.asarray(self) >= other)

    def __lt__(self, other: Any) -> NDArray[np.bool_]:
        return np.asarray(np.asarray(self) < other)

    def __le__(self, other: Any) -> NDArray[np.bool_]:
        return np.asarray(np.asarray(self) <= other)

    def with_columns(self, ids: Ids) -> Self:
        """The same entries in a matrix with these columns, which must include all columns of this one.

        Parameters
        ----------
        ids : array of column ids
        """
        if self.col_ids is None:
            raise ValueError("this matrix has no column ids, so its columns cannot be matched with others")
        at = Labels("column", len(ids), ids).positions(self.col_ids).astype(np.int32)
        rows, index = self.rows_of_entries(), at[self.index]
        order = np.lexsort((index, rows))
        shape = self.shape[0], len(ids)
        weights = None if self.weights is None else self.weights[order]
        return replace(self, index=index[order], values=self.values[order], shape=shape, col_ids=ids, weights=weights)

    def transposed(self) -> ObservedMatrix:
        """Rows and columns exchanged, ids and weights with them."""
        by_columns: Any = self.to_csr().tocsc()
        indptr, index = by_columns.indptr.astype(np.int64), by_columns.indices.astype(np.int32, copy=False)
        weights: Any = None if self.weights is None else self.weights_to_csr().tocsc().data  # in the same order
        parts = indptr, index, by_columns.data, self.shape[::-1], self.col_ids, self.row_ids, weights
        return ObservedMatrix(*parts, reordered=self.reordered)
