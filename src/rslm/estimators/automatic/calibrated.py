"""From the held-out entries of a search to intervals of predictions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rslm.data import ObservedMatrix
from rslm.estimators.automatic.folds import Fold
from rslm.estimators.completion.bounds import clipped
from rslm.estimators.completion.error_size import ErrorSize, Residuals, coefficients_of
from rslm.estimators.completion.intervals import Intervals
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.leverage import Leverage
from rslm.kernels import predict_pairs
from rslm.losses import Loss
from rslm.runtime.types import Floats
from rslm.structures import Box


def calibrated(
    fitted: Iterable[tuple[Fold, Layout, dict[str, Any]]], box: Box | None, loss: Loss, n_threads: int
) -> Intervals | None:
    """From every fold, the layout of its fit and the attributes of its model. None without a finite error."""
    residuals, features, errors, places = [], [], [], []
    for fold, layout, model in fitted:
        left = Residuals.of(
            fold.train, targets(fold.train, loss) - predicted(model, fold.train, n_threads), layout.units
        )
        counts = left.row_counts, left.col_counts
        i, j = fold.held.rows_of_entries(), fold.held.index
        leverage = Leverage.of(factors_in_units(model, layout.units), counts, layout.C, layout.weighting, layout.ridges)
        w = clipped(predicted(model, fold.held, n_threads), box, i, j)
        residuals.append(left)
        features.append(left.features(leverage, i, j))
        errors.append(np.abs(targets(fold.held, loss) - w))
        places.append((i, j))
    size, at = np.concatenate(errors), [np.concatenate(side) for side in zip(*places, strict=True)]
    table = np.concatenate(features)
    if not (np.isfinite(size).all() and np.isfinite(table).all()):
        return None
    expected = ErrorSize(Residuals.mean_of(residuals), coefficients_of(table, size))
    return Intervals.of(expected, size, table @ expected.coefficients, at[0], at[1])


def targets(data: ObservedMatrix, loss: Loss) -> Floats:
    return np.asarray(loss.targets(data.values), dtype=np.float64)


def predicted(model: dict[str, Any], data: ObservedMatrix, n_threads: int) -> Floats:
    """The predictions of the entries of a matrix by a model with these attributes."""
    rows, cols = data.rows_of_entries(), data.index
    w = predict_pairs(rows, cols, model["row_factors_"], model["col_factors_"], n_threads)
    w += model["intercept_"] + model["row_effects_"][rows] + model["col_effects_"][cols]
    return w


def factors_in_units(model: dict[str, Any], units: Floats | None) -> tuple[Floats, Floats]:
    """Row and column factors of one matrix; those of features that have units of their own in these units."""
    rows, cols = model.get("_one_draw", (model["row_factors_"], model["col_factors_"]))
    return rows, cols if units is None else cols / units[:, None]
