"""Weights of observed entries: checks, and conversion from every form in which they are given.

A weight multiplies the loss of its entry: weight 2 is the entry twice, weight 0 leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rslm.data.checks import real_numbers
from rslm.data.convert import (
    Duplicates,
    canonical,
    check_duplicates,
    from_sparse,
    labels_of,
    place_of,
    repeats,
    table_to_array,
    to_array,
)
from rslm.data.labels import Ids, Labels, show_id
from rslm.runtime.types import Floats, Indices32, Indices64

NEEDED = "A weight must be a finite number ≥ 0; an entry of weight 0 is left out."
BLOCK = 1 << 22  # entries processed at a time

Place = Callable[[int], str]  # where a weight is, in words


def weights_given(given: Any, what: str = "weights") -> Floats:
    """One-dimensional weights in double precision, the precision in which all weights are kept."""
    return real_numbers(np.asarray(given), what).astype(np.float64, copy=False)


def check_weights(weights: Floats, place: Place) -> None:
    """An error if a weight is negative, NaN or infinite, or if there are weights and all of them are 0."""
    right = (weights >= 0) & (weights < np.inf)  # False for NaN
    if not right.all():
        at = int(np.argmin(right))
        raise ValueError(
            f"{len(weights) - np.count_nonzero(right)} of {len(weights)} weights are negative, NaN or infinite: the "
            f"first is {weights[at]:g} at {place(at)}. {NEEDED}"
        )
    if len(weights) and not weights.any():
        raise ValueError(
            f"all {len(weights)} weights are zero, so nothing is observed. Give at least one entry a positive weight."
        )


def none_if_ones(weights: Floats) -> Floats | None:
    """None if all weights are 1, so that a fit without weights and one with equal weights are the same."""
    return weights if any((weights[k : k + BLOCK] != 1.0).any() for k in range(0, len(weights), BLOCK)) else None


def compress_weighted(
    rows: NDArray[np.integer[Any]],
    cols: NDArray[np.integer[Any]],
    values: Floats,
    weights: Floats,
    shape: tuple[int, int],
    duplicates: Duplicates,
    row_ids: Ids | None = None,
    col_ids: Ids | None = None,
) -> tuple[Indices64, Indices32, Floats, Floats]:
    """Compressed rows of entries in any order, without those of weight 0, and their weights."""
    check_duplicates(duplicates)
    check_weights(weights, lambda k: f"row {show_id(row_ids, int(rows[k]))}, column {show_id(col_ids, int(cols[k]))}")
    kept = np.flatnonzero(weights > 0)
    order = kept[np.lexsort((cols[kept], rows[kept]))]  # stable: repeated entries stay in the order given
    counts = np.bincount(rows[order], minlength=shape[0])
    indptr: Indices64 = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    index, values, weights = cols[order].astype(np.int32), values[order], weights[order]
    again = repeats(indptr, index)
    if duplicates == "error" or not again.any():
        return *canonical(indptr, index, values, "error", row_ids, col_ids), weights
    canonical(indptr, index, values, "last", row_ids, col_ids)  # checks the values
    first = np.flatnonzero(np.concatenate([[True], ~again]))
    counts = np.diff(first, append=len(index))
    if duplicates == "last":
        last = first + counts - 1
        merged, total = values[last], weights[last]
    elif duplicates == "mean":
        total = np.add.reduceat(weights, first)
        merged = np.add.reduceat(values * (weights / np.repeat(total, counts)), first)
    else:
        total = weights[first]
        differ = weights != np.repeat(total, counts)
        if differ.any():
            at = int(np.argmax(differ))
            raise ValueError(
                f"{place_of(at, indptr, index, row_ids, col_ids)} is repeated with different weights, so its sum has "
                "none. Give equal weights, or choose duplicates mean or last."
            )
        merged = np.add.reduceat(values, first, dtype=np.float64)
    return np.searchsorted(first, indptr).astype(np.int64), index[first], merged.astype(values.dtype), total


def weights_of_entries(pattern: Any, given: Any) -> Floats:
    """The weights of the entries of an ObservedMatrix, in their order; `given` is of any kind that is accepted."""
    if hasattr(given, "indptr") and hasattr(given, "row_ids"):  # an ObservedMatrix, which imports this module
        _check_shape(pattern, given.shape)
        _check_ids(pattern, given.row_ids, given.col_ids)
        _check_pattern(pattern, given.indptr, given.index)
        return weights_given(given.values)
    if bool(sparse.issparse(given)):
        _check_shape(pattern, given.shape)
        indptr, index, values, _ = from_sparse(given, "sample_weight", finite=False)
        _check_pattern(pattern, indptr, index)
        return weights_given(values)
    if hasattr(given, "to_numpy") and hasattr(given, "columns"):
        _check_shape(pattern, given.shape)
        _check_ids(pattern, labels_of(getattr(given, "index", None)), labels_of(given.columns))
        return _of_dense(pattern, table_to_array(given, "sample_weight"))
    if isinstance(given, str):
        raise TypeError(
            f"sample_weight is the text {given!r}, but numbers are needed; a column is named only where a table is "
            "read: fit(path, sample_weight='column')"
        )
    array = to_array(given, "sample_weight")
    if array.ndim == 2:
        _check_shape(pattern, array.shape)
        return _of_dense(pattern, array)
    if array.ndim == 0:
        return np.full(len(pattern), weights_given(array, "sample_weight").item())
    if array.ndim != 1 or len(array) != len(pattern):
        n, m = pattern.shape
        raise ValueError(
            f"sample_weight has shape {array.shape}, but {len(pattern)} entries are observed: give one weight for each "
            f"of them, row by row, or a matrix of {n} × {m} weights"
        )
    if pattern.reordered:
        raise ValueError(
            f"sample_weight is {in_which_order('weights')}, or with the entries: from_ratings(…, weights=…)"
        )
    return weights_given(array, "sample_weight")


def in_which_order(what: str) -> str:
    """Why a flat array of numbers for the entries of a reordered matrix is refused, and what to give instead."""
    return (
        f"an array with one number for every entry, but the entries were given in another order than they are stored, "
        f"row by row, so that numbers could be those of other entries. Give {what} as a matrix, "
        f"ObservedMatrix.from_ratings(rows, columns, {what}), or X.with_values({what}) if they are in the order of "
        "X.values"
    )


def _of_dense(pattern: Any, array: NDArray[Any]) -> Floats:
    return weights_given(array[pattern.rows_of_entries(), pattern.index], "sample_weight")


def _check_shape(pattern: Any, shape: tuple[int, ...]) -> None:
    if tuple(shape) != tuple(pattern.shape):
        raise ValueError(
            f"sample_weight has shape {tuple(shape)}, but X has shape {tuple(pattern.shape)}; a matrix of weights has "
            "the shape of X"
        )


def _check_ids(pattern: Any, row_ids: Ids | None, col_ids: Ids | None) -> None:
    """Where both have ids, they must be the same in the same order, or weights would be those of other entries."""
    for kind, own, ids in (("row", pattern.row_ids, row_ids), ("column", pattern.col_ids, col_ids)):
        if own is not None and ids is not None and not Labels(kind, len(own), own).same(ids):
            raise ValueError(
                f"sample_weight has other {kind} ids than X, or in another order; give the weights in the order of X"
            )


def _check_pattern(pattern: Any, indptr: Indices64, index: Indices32) -> None:
    if np.array_equal(pattern.indptr, indptr) and np.array_equal(pattern.index, index):
        return
    own, other = _keys(pattern.indptr, pattern.index, pattern.shape[1]), _keys(indptr, index, pattern.shape[1])
    shorter = min(len(own), len(other))
    differ = own[:shorter] != other[:shorter]
    at = int(np.argmax(differ)) if differ.any() else shorter
    lacking = at == len(other) or (at < len(own) and own[at] < other[at])
    row, col = divmod(int((own if lacking else other)[at]), pattern.shape[1])
    where = f"row {show_id(pattern.row_ids, row)}, column {show_id(pattern.col_ids, col)}"
    said = f"{where} is observed in X, but has no weight" if lacking else f"{where} has a weight, but is not observed"
    raise ValueError(
        f"sample_weight has another pattern than X: {said}. Store one weight for every observed entry, 0 for those to "
        "leave out, and no other."
    )


def _keys(indptr: Indices64, index: Indices32, columns: int) -> Indices64:
    """The entries as numbers in their order, which fit 64 bits as rows and columns are numbered in 32."""
    rows = np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))
    return rows * columns + index
