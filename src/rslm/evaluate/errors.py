"""Errors of predicted entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data import ObservedMatrix
from rslm.runtime.types import Floats


def rmse(model: Any, held_out: Any, *, unseen: str = "error") -> float:
    """Root mean squared error of the predictions of a model at held-out entries, weighted if these have weights.

    Parameters
    ----------
    model : a fitted model with `predict(rows, cols)`
    held_out : ObservedMatrix, or any other matrix that `fit` accepts
        Entries of the rows and columns that the model was fitted to; `align(held_out, model)` leaves others out.
    unseen : {"error", "mean"}
        As in `predict` of the model: whether other rows and columns are an error, or predicted like an average one.
    """
    data = filled(held_out)
    return root_mean_square(predictions(model, data, unseen) - data.values, data.weights)


def mae(model: Any, held_out: Any, *, unseen: str = "error") -> float:
    """Mean absolute error of the predictions of a model at held-out entries, weighted if these have weights.

    Parameters
    ----------
    model, held_out, unseen : as in `rmse`
    """
    data = filled(held_out)
    return mean_absolute(predictions(model, data, unseen) - data.values, data.weights)


def predictions(model: Any, data: ObservedMatrix, unseen: str = "error") -> Floats:
    """The predictions of a model at the entries of a matrix, by ids where it has any."""
    options = {} if unseen == "error" else {"unseen": unseen}  # other tools' models may have no such parameter
    found: Floats = model.predict(*named_entries(model, data), **options)
    return found


def named_entries(model: Any, data: ObservedMatrix) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rows and columns of the entries of a matrix, as a model knows them: by ids where it has any."""
    sides = ("row", data.rows_of_entries(), data.row_ids), ("col", data.index, data.col_ids)
    rows, cols = (
        _named(side, at, ids, getattr(model, f"{side}_ids_", None), count)
        for (side, at, ids), count in zip(sides, data.shape, strict=True)
    )
    return rows, cols


def _named(side: str, at: NDArray[Any], ids: NDArray[Any] | None, known: NDArray[Any] | None, count: int) -> Any:
    """Entries without ids are those of a model with ids by position, if it has as many rows or columns."""
    if ids is None and known is not None:
        if count != len(known):
            kind = {"row": "row", "col": "column"}[side]
            raise ValueError(
                f"a matrix of {count} {kind}s without ids was given, but the model has ids for {len(known)}; give an "
                "ObservedMatrix with ids, or a matrix of the shape that fit was given"
            )
        ids = known
    return at if ids is None else ids[at]


def root_mean_square(errors: Floats, weights: Floats | None = None) -> float:
    """The root mean square, also if squares overflow."""
    size = np.abs(errors)
    largest = float(size.max(initial=0.0))
    return largest * float(np.sqrt(np.average((size / largest) ** 2, weights=weights))) if largest > 0 else 0.0


def mean_absolute(errors: Floats, weights: Floats | None = None) -> float:
    return float(np.average(np.abs(errors), weights=weights))


def filled(held_out: Any, what: str = "held_out") -> ObservedMatrix:
    """The entries to be predicted, at least one."""
    data = ObservedMatrix.from_any(held_out, allow_empty=True)
    if not len(data):
        raise ValueError(f"{what} has no entries, so there is nothing to predict; hold out at least one")
    return data
