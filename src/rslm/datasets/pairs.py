"""Shared by the generators of matrices: checks, and computations for many pairs of a row and a column at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rslm.runtime.types import Floats, Indices32, Indices64

PAIRS = 1 << 17  # values computed at a time: their factors should stay in the cache


def inner(left: Floats, right: Floats, i: Indices32 | Indices64, j: Indices32 | Indices64) -> Floats:
    """left_iᵀ right_j for all pairs (i[k], j[k])."""
    value = np.empty(len(i))
    for start in range(0, len(i), PAIRS):
        at = slice(start, start + PAIRS)
        np.einsum("kr,kr->k", left[i[at]], right[j[at]], out=value[at])
    return value


def ascending(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The keys, sorted (in place) and without repetitions; np.unique hashes integers first, which is much slower."""
    keys.sort()
    return keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys


def check_counts(rows: int, columns: int, entries: int, rank: int, name: str) -> None:
    if min(rows, columns, rank) < 1:
        raise ValueError(
            f"A {rows} × {columns} matrix of rank {rank} was requested, but each number must be at least 1."
        )
    if not 1 <= entries <= rows * columns:
        raise ValueError(
            f"{name} is {entries}, but a {rows} × {columns} matrix has room for 1 to {rows * columns} entries."
        )
