"""A matrix known at an explicit set of entries: the form to which all data are converted first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from rslm.data.checks import LARGEST, check_lengths, check_range, checked_shape, integers, real_numbers
from rslm.data.convert import Duplicates, compress, from_dense, from_sparse, labels_of, table_to_array, to_array
from rslm.data.labels import Ids, Labels, as_ids, number_ids
from rslm.runtime.types import Floats, Indices32, Indices64

BLOCK = 1 << 22  # entries processed at a time


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ObservedMatrix:
    """An n_samples × n_features matrix of which only the entries in an explicit index set are known.

    A stored zero is an observation; what is not stored is missing. Entries are stored row by row, with the columns of
    a row ascending and without repetition. Build one with a `from_…` method: the constructor does not check its
    arguments. Treat it as immutable; arrays may be shared with the input and with `to_csr()`.
    """

    indptr: Indices64  #: (n_samples + 1): row i owns the entries indptr[i] … indptr[i + 1] − 1
    index: Indices32  #: the column of every entry
    values: Floats  #: float64 or float32
    shape: tuple[int, int]
    row_ids: Ids | None = None  #: the user's id of every row
    col_ids: Ids | None = None
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
    ) -> Self:
        """Entries (rows[k], cols[k]) = values[k] with positions that count from 0.

        Without `shape`, the largest positions determine it. `duplicates` says how a pair that occurs more than once
        is treated: it is an "error", or becomes the "sum" or "mean" of its values, or the "last" one in the order
        given.
        """
        i, j = integers(rows, "rows"), integers(cols, "cols")
        y = real_numbers(np.asarray(values), "values")
        check_lengths(rows=i, cols=j, values=y)
        if shape is None:
            shape = max(int(i.max()) + 1, 1), max(int(j.max()) + 1, 1)
        size = checked_shape(shape)
        check_range(i, size[0], "rows")
        check_range(j, size[1], "cols")
        return cls(*compress(i, j, y, size, duplicates), size)

    @classmethod
    def from_ratings(
        cls, row_ids: Iterable[Any], col_ids: Iterable[Any], values: ArrayLike, duplicates: Duplicates = "error"
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
        """
        given_rows, given_cols = as_ids(row_ids, "row_ids"), as_ids(col_ids, "col_ids")
        y = real_numbers(np.asarray(values), "values")
        check_lengths(row_ids=given_rows, col_ids=given_cols, values=y)
        known_rows, i = number_ids(given_rows, "row_ids")
        known_cols, j = number_ids(given_cols, "col_ids")
        size = checked_shape((len(known_rows), len(known_cols)))
        return cls(*compress(i, j, y, size, duplicates, known_rows, known_cols), size, known_rows, known_cols)

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
            return cls(*from_sparse(X))._not_empty(allow_empty)
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
        """The same entries with other values."""
        return replace(self, values=values)

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

    def to_dense(self) -> Floats:
        """As an array with NaN where nothing is observed."""
        dense = np.full(self.shape, np.nan, dtype=self.values.dtype)
        dense[self.rows_of_entries(), self.index] = self.values
        return dense

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
        return replace(self, index=index[order], values=self.values[order], shape=shape, col_ids=ids)

    def transposed(self) -> ObservedMatrix:
        """Rows and columns exchanged, ids with them."""
        by_columns: Any = self.to_csr().tocsc()
        indptr, index = by_columns.indptr.astype(np.int64), by_columns.indices.astype(np.int32, copy=False)
        return ObservedMatrix(indptr, index, by_columns.data, self.shape[::-1], self.col_ids, self.row_ids)
