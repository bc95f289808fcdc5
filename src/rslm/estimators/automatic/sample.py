"""Settings of large data from some of their rows.

Rows are sampled whole, so that every row keeps its number of entries; columns keep their shares of them. Ridges and
weighting do not depend on the number of rows, C does. The best C shrinks singular values by about as much as noise adds
to them. Relative to those of W, which grow as √(rows · columns), noise adds about √rows + √columns, so that

    best C  ∝  √rows / (√rows + √columns).

It grows with the number of rows as long as there are fewer rows than columns, and then hardly any more.
"""

from __future__ import annotations

import math

import numpy as np

from rslm.runtime.types import Indices64

ENTRIES = 2_000_000  # of a sample; of smaller data all rows are taken
SEED = 0  # the same data give the same sample


def sampled_rows(counts: Indices64, entries: int) -> Indices64:
    """Random rows, in ascending order, with about `entries` entries in all at most; from the `counts` of all rows."""
    if int(counts.sum()) <= entries:
        return np.arange(len(counts))
    order = np.random.default_rng(SEED).permutation(np.flatnonzero(counts))
    many = int(np.searchsorted(np.cumsum(counts[order]), entries, side="right"))
    return np.sort(order[: max(many, 1)])


def C_of_more_rows(columns: int, rows: float, sampled: int) -> float:
    """The best C of a matrix with this many rows, which may be ∞, relative to that of `sampled` rows of it."""
    if rows == sampled:
        return 1.0
    of_all = 1.0 if math.isinf(rows) else math.sqrt(rows) / (math.sqrt(rows) + math.sqrt(columns))
    return of_all * (math.sqrt(sampled) + math.sqrt(columns)) / math.sqrt(sampled)
