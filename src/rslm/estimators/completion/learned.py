"""What a fitted completion predicts, at positions and not ids; and what effects alone would predict."""

from __future__ import annotations

from typing import Any

import numpy as np

from rslm.data import ObservedMatrix
from rslm.estimators.choices import AUTO
from rslm.estimators.completion.asked import ridges_of
from rslm.estimators.completion.bounds import clipped
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.predicting import Predicting
from rslm.evaluation.effects import effects_alone
from rslm.kernels import predict_pairs
from rslm.runtime.threads import thread_count
from rslm.runtime.types import Floats


def factors_with_effects(model: Predicting) -> tuple[Floats, Floats]:
    """Two matrices whose product is the prediction, effects included."""
    return model._left, model._right


def learned_rows(model: Predicting, rows: slice = slice(None)) -> Floats:
    """All predictions of some rows, or of all."""
    left, right = factors_with_effects(model)
    block: Floats = left[rows] @ right.T
    if model._box is not None:  # rounding errors
        lower, upper = model._box.planes((len(left), len(right)))
        np.clip(block, lower[rows], upper[rows], out=block)
    return block


def learned_entries(model: Predicting, data: ObservedMatrix) -> Floats:
    """The predictions of the entries of `data`, which has the shape of the model."""
    rows, cols = _positions(data)
    return clipped(_products(model._left, model._right, rows, cols, model), model._box, rows, cols)


def effects_entries(model: Any, train: ObservedMatrix, test: ObservedMatrix) -> Floats:
    """The entries of `test` as mean, row and column effects alone predict them, learned from `train`.

    The loss, the units and the ridges are those of the model; a model without effects is compared with those that
    `effects="auto"` would have.
    """
    loss, units = model._checked_loss(), getattr(model._subspace, "units", None)
    ridges = ridges_of(AUTO, train, loss, units) if model._ridges is None else model._ridges
    layout = Layout(train, loss, 1.0, 0.0, ridges=ridges, units=units)
    problem = layout.problem()
    effects = effects_alone(problem, thread_count(model.n_threads))
    U, V = (np.zeros((side, 1)) for side in problem.shape)
    found = layout.model(U, V, 0.0, effects)
    rows, cols = _positions(test)
    w = found["intercept_"] + found["row_effects_"][rows] + found["col_effects_"][cols]
    return clipped(w, model._box, rows, cols)


def _positions(data: ObservedMatrix) -> tuple[Any, Any]:
    return np.asarray(data.rows_of_entries(), dtype=np.int64), np.asarray(data.index, dtype=np.int64)


def _products(left: Floats, right: Floats, rows: Any, cols: Any, model: Any) -> Floats:
    return predict_pairs(rows, cols, left, right, thread_count(model.n_threads))
