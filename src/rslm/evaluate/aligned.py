"""Matrices of the same users and items: checks, and how one matrix is arranged like another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data import Labels, ObservedMatrix
from rslm.data.labels import hashable
from rslm.runtime.types import Indices64

Ids = NDArray[Any] | None


def arranged(
    given: Any, shape: tuple[int, int], row_ids: Ids = None, col_ids: Ids = None, what: str = "held_out"
) -> ObservedMatrix:
    """A matrix of any kind that `fit` accepts with these rows and columns: by ids where both have any, or as it is."""
    data = ObservedMatrix.from_any(given, allow_empty=True)
    common, wanted = _common(data, row_ids, col_ids)
    if any(n != m for n, m, ids in zip(data.shape, shape, wanted, strict=True) if ids is None):
        raise ValueError(
            f"{what} has shape {data.shape}, but there are {shape[0]} users and {shape[1]} items; a row for every user "
            "and a column for every item are needed, as the functions holdout… return them, or ids on both sides, by "
            f"which rslm.evaluate.align({what}, model) finds the rows and columns"
        )
    if _same(common, wanted):
        return data
    found = _at(common, shape, *wanted)
    if lost := len(data) - len(found):
        advice = f"rslm.evaluate.align({what}, model), or align({what}, ranking) where users are new to the model"
        if row_ids is None:  # any rows are welcome
            advice = f"{what}.subset(np.isin({what}.col_ids, model.col_ids_)[{what}.index])"
        raise ValueError(
            f"{lost} of {len(data)} entries of {what} are of users or items that are unknown to the model or the "
            f"ranking, and note that 1 and '1' are different ids. Leave them out: {advice}"
        )
    return replace(
        found,
        row_ids=data.row_ids if found.row_ids is None else found.row_ids,
        col_ids=data.col_ids if found.col_ids is None else found.col_ids,
    )


def align(data: Any, model: Any) -> ObservedMatrix:
    """Entries in a matrix with the rows and columns of a model; those of rows and columns unknown to it are left out.

    For data that were read from a file of their own. Where neither has ids, rows and columns are matched by position.

    Parameters
    ----------
    data : ObservedMatrix, or any other matrix that `fit` accepts
    model : a fitted model with `row_factors_` and `col_factors_`, and `row_ids_` and `col_ids_` if it has ids
        Or a `Ranking`, for its rows and columns: those of new users, whom no model knows.

    Returns
    -------
    ObservedMatrix
    """
    found = ObservedMatrix.from_any(data, allow_empty=True)
    if hasattr(model, "row_factors_"):
        shape = len(model.row_factors_), len(model.col_factors_)
        return _at(found, shape, getattr(model, "row_ids_", None), getattr(model, "col_ids_", None))
    return _at(found, model.shape, model.row_ids, model.col_ids)


def _common(data: ObservedMatrix, row_ids: Ids, col_ids: Ids) -> tuple[ObservedMatrix, tuple[Ids, Ids]]:
    """The matrix with the ids of the sides on which both it and the other have any, and the other's ids of these."""
    rows, cols = data.row_ids is not None and row_ids is not None, data.col_ids is not None and col_ids is not None
    kept = replace(data, row_ids=data.row_ids if rows else None, col_ids=data.col_ids if cols else None)
    return kept, (row_ids if rows else None, col_ids if cols else None)


def _same(common: ObservedMatrix, wanted: tuple[Ids, Ids]) -> bool:
    """Whether the ids are those that are wanted, in the same order."""
    sides = zip(("row", "column"), wanted, (common.row_ids, common.col_ids), strict=True)
    return all(ids is None or mine is None or Labels(kind, len(ids), ids).same(mine) for kind, ids, mine in sides)


def _at(found: ObservedMatrix, shape: tuple[int, int], row_ids: Ids, col_ids: Ids) -> ObservedMatrix:
    """Entries at the places of their ids, or positions, in a matrix with these; unknown ones are left out."""
    rows = _places("row", found.row_ids, row_ids, found.shape[0], shape[0])[found.rows_of_entries()]
    cols = _places("column", found.col_ids, col_ids, found.shape[1], shape[1])[found.index]
    kept = np.flatnonzero((rows >= 0) & (cols >= 0))
    order = kept[np.lexsort((cols[kept], rows[kept]))]
    ends = np.cumsum(np.bincount(rows[order], minlength=shape[0]))
    return replace(
        found,
        indptr=np.concatenate([[0], ends]).astype(np.int64),
        index=cols[order].astype(np.int32),
        values=found.values[order],
        weights=None if found.weights is None else found.weights[order],
        shape=shape,
        row_ids=row_ids,
        col_ids=col_ids,
    )


def unseen(data: Any, known: Any) -> ObservedMatrix:
    """The entries of a matrix at which another one has none.

    Parameters
    ----------
    data, known : ObservedMatrix, or any other matrix that `fit` accepts
        Where both have ids, rows and columns are matched by these; otherwise they are of the same shape.
    """
    found, others = (ObservedMatrix.from_any(given, allow_empty=True) for given in (data, known))
    common, wanted = _common(others, found.row_ids, found.col_ids)
    if any(n != m for n, m, ids in zip(found.shape, others.shape, wanted, strict=True) if ids is None):
        raise ValueError(
            f"data has shape {found.shape} and known {others.shape}, but the same shape is needed, or ids on both sides"
        )
    if not _same(common, wanted):
        others = _at(common, found.shape, *wanted)
    return found.subset(~found_in(entry_keys(others), entry_keys(found))[0])


def entry_keys(data: ObservedMatrix) -> Indices64:
    """The entries as ascending numbers, row · n_columns + column."""
    return data.rows_of_entries().astype(np.int64) * data.shape[1] + data.index


def found_in(keys: Indices64, wanted: Indices64) -> tuple[NDArray[np.bool_], Indices64]:
    """Which of the wanted numbers are among the ascending `keys`, and where."""
    at = np.searchsorted(keys, wanted)
    at[at == len(keys)] = 0
    found = keys[at] == wanted if len(keys) else np.zeros(wanted.shape, dtype=np.bool_)
    return found, at


def _places(kind: str, ids: Ids, wanted: Ids, count: int, size: int) -> Indices64:
    """The position among `wanted` of every id, −1 for those that are not there; of every position without ids."""
    if (ids is None) != (wanted is None):
        raise ValueError(f"only one of the data and the model has {kind} ids, so that they cannot be matched")
    if ids is None or wanted is None:
        return np.where(np.arange(count) < size, np.arange(count), -1)
    table = {name: at for at, name in enumerate(hashable(wanted))}
    return np.array([table.get(name, -1) for name in hashable(ids)], dtype=np.int64)
