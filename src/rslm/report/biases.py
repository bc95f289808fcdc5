"""Prediction by means of rows and columns only: the baseline that a model should beat."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rslm.data import ObservedMatrix
from rslm.runtime.types import Floats

SHRINK = 5.0  # weight of the overall mean, in entries
PASSES = 10


def bias_model(train: ObservedMatrix) -> Callable[..., Floats]:
    """mean + row bias + column bias, where biases are shrunk towards 0 if there are few entries."""
    rows, cols, values = train.rows_of_entries(), train.index, train.values.astype(np.float64)
    mean = float(values.mean())
    of_rows, of_cols = np.zeros(train.shape[0]), np.zeros(train.shape[1])
    for _ in range(PASSES):
        left = np.bincount(rows, values - mean - of_cols[cols], train.shape[0])
        of_rows = left / (train.row_counts() + SHRINK)
        left = np.bincount(cols, values - mean - of_rows[rows], train.shape[1])
        of_cols = left / (train.col_counts() + SHRINK)
    return lambda i, j: np.asarray(mean + of_rows[i] + of_cols[j])
