"""Convert entries in any order, sparse matrices, arrays and tables to compressed rows."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rslm.data.checks import matrix_shape, real_numbers
from rslm.data.labels import Ids, as_ids, show_id
from rslm.runtime.types import Floats, Indices32, Indices64

Duplicates = Literal["error", "sum", "mean", "last"]
BLOCK = 1 << 22  # entries processed at a time


def compress(
    rows: NDArray[np.integer[Any]],
    cols: NDArray[np.integer[Any]],
    values: Floats,
    shape: tuple[int, int],
    duplicates: Duplicates,
    row_ids: Ids | None = None,
    col_ids: Ids | None = None,
    *,
    finite: bool = True,
) -> tuple[Indices64, Indices32, Floats]:
    """Compressed rows of entries in any order; without `finite`, their values are not checked."""
    check_duplicates(duplicates)
    coo: Any = sparse.coo_array((values, (rows, cols)), shape=shape)
    coo.has_canonical_format = True  # else SciPy would sum repeated entries before they can be detected
    csr: Any = coo.tocsr()
    del coo  # it may hold 32-bit copies of the positions
    if duplicates == "last":
        csr = csr.tocsc().tocsr()  # a stable sort by column: repeated entries stay in the order given
    else:
        csr.sort_indices()
    return canonical(csr.indptr, csr.indices, csr.data, duplicates, row_ids, col_ids, finite=finite)


def in_order(rows: NDArray[np.integer[Any]], cols: NDArray[np.integer[Any]]) -> bool:
    """Whether entries are given row by row, with the columns of a row ascending."""
    for start in range(0, len(rows) - 1, BLOCK):
        i, j = rows[start : start + BLOCK + 1], cols[start : start + BLOCK + 1]
        if ((i[1:] < i[:-1]) | ((i[1:] == i[:-1]) & (j[1:] < j[:-1]))).any():
            return False
    return True


def sparse_in_order(X: Any) -> bool:
    """The same for the stored entries of a sparse matrix."""
    if X.format == "csr":  # of a new object, so that the flags of X stay as they are
        return bool(sparse.csr_array((X.data[: X.nnz], X.indices[: X.nnz], X.indptr), shape=X.shape).has_sorted_indices)
    if X.format == "dia":
        return in_order(*_diagonals(X)[:2])
    coo = X.tocoo(copy=False)
    return in_order(coo.row, coo.col)


def check_duplicates(duplicates: str) -> None:
    if duplicates not in get_args(Duplicates):
        raise ValueError(f"duplicates is {duplicates!r}, but must be 'error', 'sum', 'mean' or 'last'.")


def canonical(
    indptr: NDArray[Any],
    index: NDArray[Any],
    values: Floats,
    duplicates: Duplicates = "error",
    row_ids: Ids | None = None,
    col_ids: Ids | None = None,
    *,
    finite: bool = True,
) -> tuple[Indices64, Indices32, Floats]:
    """Check the values of a matrix with sorted columns, and merge or refuse repeated entries."""
    indptr, index = indptr.astype(np.int64, copy=False), index.astype(np.int32, copy=False)

    def place(at: int) -> str:
        return place_of(at, indptr, index, row_ids, col_ids)

    right = np.isfinite(values) if finite else np.ones(0, dtype=np.bool_)
    if not right.all():
        at, some_nan = int(np.argmin(right)), bool(np.isnan(values).any())  # none in what was dense
        advice = (
            "Leave entries without a value out (NaN means missing only in a dense array or DataFrame) and replace "
            "infinite ones."
            if some_nan
            else "Replace infinite values, or leave them out as missing: NaN in a dense array or DataFrame."
        )
        raise ValueError(
            f"{len(values) - np.count_nonzero(right)} of {len(values)} values are {'NaN or ' if some_nan else ''}"
            f"infinite: the first is {values[at]} at {place(at)}. {advice}"
        )
    again = repeats(indptr, index)
    if not again.any():
        return indptr, index, values
    if duplicates == "error":
        raise ValueError(
            f"{np.count_nonzero(again)} of {len(index)} entries repeat an earlier one: the first is "
            f"{place(int(np.argmax(again)))}. Give every pair once, or choose how repeated "
            "ones are merged: duplicates='sum', 'mean' or 'last' (--duplicates last on the command line)."
        )
    first = np.flatnonzero(np.concatenate([[True], ~again]))
    if duplicates == "last":
        merged = values[np.append(first[1:], len(values)) - 1]
    else:
        merged = np.add.reduceat(values, first, dtype=np.float64)
        if duplicates == "mean":
            merged /= np.diff(first, append=len(values))
    return np.searchsorted(first, indptr).astype(np.int64, copy=False), index[first], merged.astype(values.dtype)


def place_of(at: int, indptr: Indices64, index: Indices32, row_ids: Ids | None, col_ids: Ids | None) -> str:
    """Row and column of an entry, for messages."""
    row = int(np.searchsorted(indptr, at, side="right")) - 1
    return f"row {show_id(row_ids, row)}, column {show_id(col_ids, int(index[at]))}"


def repeats(indptr: Indices64, index: Indices32) -> NDArray[np.bool_]:
    """Whether the next entry is at the same place, for every entry but the last."""
    again = np.asarray(index[1:] == index[:-1])  # the next entry has the same column …
    ends = indptr[1:-1]
    again[ends[(ends > 0) & (ends < len(index))] - 1] = False  # … and is in the same row
    return again


def from_sparse(
    X: Any, what: str = "X", *, finite: bool = True
) -> tuple[Indices64, Indices32, Floats, tuple[int, int]]:
    """Compressed rows of a sparse matrix; `what` is its name in messages, `finite` whether values are checked."""
    shape = matrix_shape(X.shape)
    if X.format in ("csr", "csc", "bsr") and not _consistent(X):
        raise ValueError(
            f"{what} is a sparse matrix of shape {shape} whose indptr or indices point beyond its arrays; build it "
            "again from its entries."
        )
    if X.format == "csr":
        # A new object that shares the arrays of X, so that the order and the flags of X stay as they are.
        csr: Any = sparse.csr_array((real_numbers(X.data[: X.nnz], what), X.indices[: X.nnz], X.indptr), shape=shape)
        csr = csr if csr.has_sorted_indices else csr.sorted_indices()
        return *canonical(csr.indptr, csr.indices, csr.data, finite=finite), shape
    if X.format == "dia":
        rows, cols, data = _diagonals(X)
    else:
        coo = X.tocoo(copy=False)
        rows, cols, data = coo.row, coo.col, coo.data
    return *compress(rows, cols, real_numbers(data, what), shape, "error", finite=finite), shape


def _consistent(X: Any) -> bool:
    """Whether the arrays of a compressed matrix are consistent. If not, SciPy would read beyond their ends."""
    rows, columns = (n // size for n, size in zip(X.shape, getattr(X, "blocksize", (1, 1)), strict=True))
    major, minor = (columns, rows) if X.format == "csc" else (rows, columns)
    indptr, indices = X.indptr, X.indices
    if len(indptr) != major + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        return False
    used = indices[: indptr[-1]]
    return bool(len(used) == indptr[-1] <= len(X.data) and used.min(initial=0) >= 0 and used.max(initial=-1) < minor)


def _diagonals(X: Any) -> tuple[Indices32, Indices32, NDArray[Any]]:
    """The stored entries of a matrix in DIA format; SciPy's own conversion drops stored zeros."""
    column = np.arange(X.data.shape[1], dtype=np.int32)[None, :]
    row = column - X.offsets[:, None].astype(np.int32)
    inside = (row >= 0) & (row < X.shape[0]) & (column < X.shape[1])
    return row[inside], np.broadcast_to(column, row.shape)[inside], X.data[inside]


def to_array(X: Any, what: str = "X") -> NDArray[Any]:
    if isinstance(X, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(X), np.nan, real_numbers(X.data, what))
    try:
        array = np.asarray(X)
    except ValueError:
        raise ValueError(
            f"the rows of {what} have different lengths; give rows of equal length, NaN for missing"
        ) from None
    if array.ndim == 0 and array.dtype.kind == "O":
        raise TypeError(
            f"{what} is a {type(X).__name__}, but a matrix of samples × features is needed: an array, a DataFrame or a "
            "scipy.sparse matrix. Convert it first, a dict of columns by pd.DataFrame, a generator of rows by list."
        )
    if array.dtype.kind != "O" or array.ndim != 2:
        return array
    text = next((value for value in array.flat if isinstance(value, str)), None)
    if text is not None:
        raise TypeError(f"{what} contains the text {text!r}, but real numbers are needed, and NaN for missing.")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} has dtype object and contains values that are not real numbers: {error}.") from None


def as_numbers(X: Any, instead: str = "Encode it as numbers, or leave it out.") -> Any:
    """X in a form that scikit-learn's checks accept; anything but a matrix of numbers is an error with our message.

    `instead` says what to do with a column of text or dates.
    """
    if X is None:
        raise TypeError("X is None, but a matrix of samples × features is needed")
    if hasattr(X, "columns"):
        polars = hasattr(X, "get_column")
        for k, name in enumerate(X.columns if polars or hasattr(X, "iloc") else ()):
            wrong = _not_numbers(X.get_column(name).to_numpy() if polars else X.iloc[:, k])
            if wrong:
                raise TypeError(f"Column {name!r} of X {wrong}, but real numbers are needed. {instead}")
        return X
    if not sparse.issparse(X):
        X = to_array(X)
    if X.dtype.kind == "c":
        return real_numbers(X[:0], "X")  # raises
    if X.dtype.kind in "USMmV":
        raise TypeError(f"X has dtype {X.dtype}, but real numbers are needed; convert it with X.astype(float)")
    matrix_shape(X.shape)
    return X


def _not_numbers(column: Any) -> str:
    """What a column has that is no number: text, dates or durations; "" if there is nothing such."""
    if column.dtype.kind in "fiubc":  # complex numbers are refused with the whole matrix
        return ""
    if column.dtype.kind in "Mm":
        return f"has dtype {column.dtype}"
    text = next((value for value in column if isinstance(value, str | date | timedelta)), None)
    if text is None:
        return ""
    return f"contains the text {text!r}" if isinstance(text, str) else f"contains {text}, a {type(text).__name__}"


def table_to_array(table: Any, what: str = "X") -> NDArray[Any]:
    if not hasattr(table, "index"):  # Polars
        return to_array(table.to_numpy(), what)
    for name, dtype in zip(table.columns, table.dtypes, strict=True):
        if dtype.kind not in "fiub":
            raise TypeError(
                f"Column {name!r} of {what} has dtype {dtype}, but real numbers are needed. Drop or convert it."
            )
    numbers = [getattr(dtype, "subtype", dtype) for dtype in table.dtypes]  # that of a sparse column has no size itself
    single = all(dtype.kind == "f" and dtype.itemsize == 4 for dtype in numbers)
    array: NDArray[Any] = table.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
    return array


def labels_of(labels: Any) -> Ids | None:
    """The ids in the index of a DataFrame; None if it is a plain range from 0."""
    plain = type(labels).__name__ == "RangeIndex" and labels.start == 0 and labels.step == 1
    return None if labels is None or plain else as_ids(labels, "labels")


def from_dense(
    array: NDArray[Any], row_ids: Ids | None, col_ids: Ids | None
) -> tuple[Indices64, Indices32, Floats, tuple[int, int]]:
    shape = matrix_shape(array.shape)
    dense = real_numbers(array, "X")
    known = ~np.isnan(dense)
    flat = np.flatnonzero(known)
    indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(known, axis=1))])
    return *canonical(indptr, flat % shape[1], dense[known], "error", row_ids, col_ids), shape
