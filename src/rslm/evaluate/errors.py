"""Errors of predicted entries."""

from __future__ import annotations

from typing import Any

import numpy as np

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
    data = _filled(held_out)
    return root_mean_square(predictions(model, data, unseen) - data.values, data.weights)


def mae(model: Any, held_out: Any, *, unseen: str = "error") -> float:
    """Mean absolute error of the predictions of a model at held-out entries, weighted if these have weights.

    Parameters
    ----------
    model, held_out, unseen : as in `rmse`
    """
    data = _filled(held_out)
    return mean_absolute(predictions(model, data, unseen) - data.values, data.weights)


def predictions(model: Any, data: ObservedMatrix, unseen: str = "error") -> Floats:
    """The predictions of a model at the entries of a matrix, by ids where it has any."""
    rows, cols = data.rows_of_entries(), data.index
    options = {} if unseen == "error" else {"unseen": unseen}  # other tools' models may have no such parameter
    found: Floats = model.predict(
        rows if data.row_ids is None else data.row_ids[rows],
        cols if data.col_ids is None else data.col_ids[cols],
        **options,
    )
    return found


def root_mean_square(errors: Floats, weights: Floats | None = None) -> float:
    """The root mean square, also if squares overflow."""
    size = np.abs(errors)
    largest = float(size.max(initial=0.0))
    return largest * float(np.sqrt(np.average((size / largest) ** 2, weights=weights))) if largest > 0 else 0.0


def mean_absolute(errors: Floats, weights: Floats | None = None) -> float:
    return float(np.average(np.abs(errors), weights=weights))


def _filled(held_out: Any) -> ObservedMatrix:
    data = ObservedMatrix.from_any(held_out, allow_empty=True)
    if not len(data):
        raise ValueError("held_out has no entries, so there is nothing to predict; hold out at least one")
    return data
