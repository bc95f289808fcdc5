"""A table with one entry a line, given as if it were the matrix itself: it would be completed as a matrix of ids."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from rslm.data.files.names import MOST_IN_TRIPLETS, by_name
from rslm.estimators.warn import warn_caller

FEW = 20  # lines; with fewer, nothing is said of columns without known names


def check_wide(X: Any) -> None:
    """An error if X has columns such as user, item and rating; a warning if it has unknown names but looks like it."""
    columns = list(getattr(X, "columns", ()))
    names = [str(name) for name in columns]
    row, col, value = by_name(names)
    named = row is not None and col is not None and (value is not None or len(names) <= MOST_IN_TRIPLETS)
    if named and all(_are_ids(X[columns[names.index(str(name))]]) for name in (row, col)):
        values = "the values" if value is None else f"X[{value!r}]"
        raise ValueError(
            f"X has the columns {', '.join(map(repr, names))}: one entry per line, but a matrix of rows × columns is "
            f"needed. Use ObservedMatrix.from_ratings(X[{row!r}], X[{col!r}], {values}), or, if the ids are to be "
            "completed as numbers, X.to_numpy()."
        )
    if _looks_long(X):
        warn_caller(
            f"X has {X.shape[1]} columns, is complete, and its first two columns look like ids. If every line is one "
            "entry (row id, column id, value), use ObservedMatrix.from_ratings(row_ids, col_ids, values)."
        )


def _are_ids(column: Any) -> bool:
    """Whether no value is missing, and all are texts or whole numbers."""
    values = np.asarray(column)
    if values.dtype.kind == "f":
        return bool(np.isfinite(values).all() and (values == np.floor(values)).all())
    return values.dtype.kind in "iuUST" or (values.dtype.kind == "O" and all(isinstance(v, str | int) for v in values))


def _looks_long(X: Any) -> bool:
    """Whether the first two of three or four columns are whole numbers that occur repeatedly, but in no pair twice."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if sparse.issparse(X) or len(shape) != 2 or not 3 <= shape[1] <= MOST_IN_TRIPLETS or shape[0] < FEW:
        return False
    table = np.asarray(X.to_numpy() if hasattr(X, "to_numpy") else X)
    if table.dtype.kind not in "iuf" or not np.isfinite(table).all():
        return False
    ids = table[:, :2]
    if (ids < 0).any() or (ids != np.floor(ids)).any():
        return False
    numbers = [len(np.unique(column)) for column in ids.T]
    repeated = max(numbers) <= len(ids) / 2 and min(numbers) > 2  # a class or a yes and no is not an id
    return repeated and len(np.unique(ids, axis=0)) == len(ids)
