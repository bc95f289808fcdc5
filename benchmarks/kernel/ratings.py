"""Generated ratings of skewed popularity, exactly those that the yardstick's own `ratings` draws."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ROWS, COLUMNS, RANK = 10_677, 69_878, 8  # the shape of MovieLens-10M


def ratings(entries: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """A ROWS × COLUMNS matrix by columns: where they begin, the rows of the entries, their values."""
    rng = np.random.default_rng(0)
    row = np.minimum(rng.pareto(0.9, ROWS) + 0.05, 60.0)
    column = np.minimum(rng.pareto(1.2, COLUMNS) + 0.1, 40.0)
    row, column = row / row.sum(), column / column.sum()
    key = np.empty(0, np.int64)
    while len(key) < entries:
        more = int((entries - len(key)) * 1.5) + 1000
        new = rng.choice(COLUMNS, more, p=column).astype(np.int64) * ROWS + rng.choice(ROWS, more, p=row)
        key = np.unique(np.concatenate([key, new]))
    key = np.sort(rng.permutation(key)[:entries])
    t, i = key // ROWS, (key % ROWS).astype(np.int32)
    left, right = rng.standard_normal((ROWS, RANK)) / np.sqrt(RANK), rng.standard_normal((COLUMNS, RANK))
    y = 3.5 + 0.5 * np.einsum("ij,ij->i", left[i], right[t]) + 0.8 * rng.standard_normal(entries)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(t, minlength=COLUMNS))]).astype(np.int64)
    return indptr, i, y
