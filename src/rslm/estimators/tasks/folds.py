"""Rows that are held out: some of every task, never all of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.estimators.tasks.family import Fitted
from rslm.estimators.tasks.intervals import HeldOut
from rslm.estimators.tasks.leverage import Leverage, Ridges
from rslm.losses import Loss
from rslm.measurements import Tasks
from rslm.runtime.types import Floats, Indices64

FOLDS = 5
# Numbers of feature values of all observations: with more than MANY there are three folds instead of five; with more
# than TOO_MANY, one fifth of the rows is held out once.
MANY, TOO_MANY = 100_000, 1_000_000


@dataclass(frozen=True, eq=False)
class Fold:
    """Observations to learn from, and those held out."""

    train: Tasks
    held: Tasks

    def loss(self, loss: Loss, predicted: Floats) -> tuple[float, float]:
        """The weighted sum of the losses of the held-out observations, and the sum of their weights."""
        losses = loss.value(self.held.values, predicted)
        weights = np.ones(len(losses)) if self.held.weights is None else self.held.weights
        return float(weights @ losses), float(weights.sum())

    def held_out(self, fitted: Fitted, ridges: Ridges, n_threads: int) -> HeldOut:
        """The errors of the held-out observations, predicted by a model of the others."""
        rows, tasks = self.held.places()
        with np.errstate(over="ignore", invalid="ignore"):
            errors = np.abs(self.held.values - fitted.predict(self.held, n_threads))
        leverage = Leverage.of(self.train, fitted.U, ridges, n_threads)
        return HeldOut(tasks, errors, leverage.at(self.held.features.times(fitted.U, n_threads), rows, tasks))


def folds_of(data: Tasks, strata: Indices64, rng: np.random.Generator, quadratic: bool = True) -> list[Fold]:
    """Parts of the data; `strata` number the groups of rows of which each part has its share.

    Empty if every stratum has one row only. Losses that are not `quadratic` take longer, so there are fewer parts.
    """
    size = len(data) * data.features.stored / data.features.shape[0]
    count, used = (FOLDS, FOLDS) if size <= MANY and quadratic else (3, 3) if size <= TOO_MANY else (FOLDS, 1)
    of_rows = fold_of_rows(strata, count, rng)
    rows, tasks = data.places()
    of_observations, classes = of_rows[rows], 2 * tasks + (data.values > 0)
    found = []
    for k in range(used):
        held = of_observations == k
        for groups in (tasks, classes) if _is_binary(data.values) else (tasks,):
            left = np.bincount(groups[~held], minlength=int(groups.max()) + 1)
            held &= left[groups] > 0  # a task, or a class of it, is not held out as a whole
        if held.any():
            found.append(Fold(part(data, ~held), part(data, held)))
    return found


def fold_of_rows(strata: Indices64, count: int, rng: np.random.Generator) -> Indices64:
    """The fold of every row, evenly within every stratum; −1 for a row that is alone in its stratum."""
    order = rng.permutation(len(strata))
    order = order[np.argsort(strata[order], kind="stable")]
    sizes = np.bincount(strata)
    sizes = sizes[sizes > 0]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    folds = np.empty(len(strata), dtype=np.int64)
    # One count goes on over all strata, so that small ones do not all have their rows in the same folds.
    folds[order] = np.arange(len(strata)) % count
    for start, end in pairwise(starts):
        if end - start == 1:
            folds[order[start]] = -1
    return folds


def part(data: Tasks, keep: NDArray[np.bool_]) -> Tasks:
    """Some observations of all tasks. The features are shared, not copied."""
    columns = data.columns
    counts = np.bincount(data.places()[1][keep], minlength=data.shape[1])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    made: Any = Tasks.__new__(Tasks)
    weights = None if data.weights is None else data.weights[keep]
    made._set(data.features, indptr, columns.index[keep], data.values[keep], data.intercept, weights)
    made.narrow = data.narrow
    return made  # type: ignore[no-any-return]


def _is_binary(values: Floats) -> bool:
    return bool(np.isin(values, (-1.0, 1.0)).all())
