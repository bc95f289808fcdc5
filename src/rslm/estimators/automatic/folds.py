"""Which observed entries are held out: at random, but so that every row and every column keeps one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rslm.data import ObservedMatrix
from rslm.runtime.types import Indices64

LARGE = 20_000  # with more entries than this, one hold-out is accurate enough
SHARE, LEAST = 0.1, 4000  # the hold-out of large data: this fraction of the entries, but not fewer than LEAST
FEW, FOLDS, FEWER = 5_000, 5, 3  # small data: five folds of up to FEW entries, three of more


@dataclass(frozen=True)
class Fold:
    """The entries to learn from, and those to predict."""

    train: ObservedMatrix
    held: ObservedMatrix


def folds_of(data: ObservedMatrix, rng: np.random.Generator) -> list[Fold]:
    """One hold-out of large data, several disjoint ones of small data; an empty list if nothing can be held out."""
    n = len(data)
    rows, cols = (np.asarray(places, dtype=np.int64) for places in (data.rows_of_entries(), data.index))
    order = rng.permutation(n)
    if n > LARGE:
        count = min(max(round(SHARE * n), LEAST), n // 5)
        parts = [order[:count]]
    else:
        parts = np.array_split(order, min(FOLDS if n <= FEW else FEWER, max(n // 2, 1)))
    made = []
    for part in parts:
        held = np.zeros(n, dtype=np.bool_)
        held[part] = True
        for places, size in ((rows, data.shape[0]), (cols, data.shape[1])):
            _give_back(held, places, size)
        if held.any() and not held.all():
            made.append(Fold(data.subset(~held), data.subset(held)))
    return made


def _give_back(held: NDArray[np.bool_], places: Indices64, size: int) -> None:
    """Return one entry to every row, or column, that would have none to learn from."""
    empty = (np.bincount(places[~held], minlength=size) == 0) & (np.bincount(places, minlength=size) > 0)
    candidates = np.flatnonzero(held & empty[places])
    _, first = np.unique(places[candidates], return_index=True)
    held[candidates[first]] = False
