"""Entries of a matrix of exactly low rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rslm.data import ObservedMatrix, Seed, as_generator
from rslm.datasets.pairs import ascending, check_counts, inner
from rslm.runtime.types import Floats


def make_low_rank(
    rows: int, columns: int, rank: int, n_observed: int, random_state: Seed = None
) -> tuple[ObservedMatrix, Floats, Floats]:
    """Entries of L Rᵀ without noise: standard normal factors, and observed entries chosen uniformly at random.

    Parameters
    ----------
    rows, columns : int
        The shape of the matrix.
    rank : int
        Number of columns of both factors.
    n_observed : int
        Number of observed entries, at most rows × columns.
    random_state : int, RandomState, Generator or None

    Returns
    -------
    data : ObservedMatrix
    L, R : arrays of shape (rows, rank) and (columns, rank)
    """
    check_counts(rows, columns, n_observed, rank, "n_observed")
    rng = as_generator(random_state)
    left, right = rng.standard_normal((rows, rank)), rng.standard_normal((columns, rank))
    i, j = np.divmod(_distinct(rows * columns, n_observed, rng), columns)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=rows))]).astype(np.int64)
    data = ObservedMatrix(indptr, j.astype(np.int32), inner(left, right, i, j), (rows, columns))
    return data, left, right


def _distinct(population: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`count` different integers below `population`, ascending, all sets equally likely."""
    if count > population // 4:
        return np.sort(rng.choice(population, count, replace=False, shuffle=False))
    chosen = ascending(rng.integers(population, size=count))
    while len(chosen) < count:  # draw repetitions again: the population may be too large for an array
        chosen = ascending(np.concatenate([chosen, rng.integers(population, size=count - len(chosen))]))
    return chosen
