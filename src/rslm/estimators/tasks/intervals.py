"""Intervals of the predictions of tasks, from the errors of held-out rows.

An error is expected to have the size s = noise of the task · √(1 + leverage). The noise of a task is the mean size of
its held-out errors, shrunk towards that of all tasks by as much as tasks with few such errors need. Scores |y − ŷ| / s
are calibrated by `rslm.evaluate.intervals`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rslm.data import parts
from rslm.evaluate.intervals import Calibration
from rslm.runtime.types import Floats, Indices64
from rslm.storage.container import Arrays

LEAST_POOLED = 1.0  # errors of all tasks that count for every task, at least


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Sizes of errors of held-out observations, with their leverages in the models that had not seen them."""

    tasks: Indices64
    errors: Floats
    leverage: Floats

    @classmethod
    def joined(cls, several: list[HeldOut]) -> HeldOut:
        return cls(*(np.concatenate([getattr(h, name) for h in several]) for name in ("tasks", "errors", "leverage")))


@dataclass(frozen=True, eq=False)
class Intervals:
    """The noise of every task, and the scores of held-out observations."""

    noise: Floats  #: (n_tasks,)
    calibration: Calibration

    @classmethod
    def of(cls, held: HeldOut, n_tasks: int) -> Intervals | None:
        """None if a prediction was not a finite number."""
        sizes = held.errors / np.sqrt(1.0 + held.leverage)
        unit = float(sizes.max(initial=0.0))
        if not np.isfinite(unit) or len(sizes) == 0:
            return None
        sizes = sizes / (unit or 1.0)  # squares of extreme errors
        mean, pooled = float(sizes.mean()), weight_of_all(sizes, held.tasks, n_tasks)
        counts = np.bincount(held.tasks, minlength=n_tasks)
        totals: Floats = np.bincount(held.tasks, sizes, n_tasks).astype(np.float64)
        noise = shrunk(totals, counts, mean, pooled)
        # A new observation has no part in the noise of its task, so a held-out one must have none in its score either.
        others = shrunk(totals[held.tasks] - sizes, counts[held.tasks] - 1, mean, pooled)
        return cls(noise * unit, Calibration.of(sizes / np.maximum(others, np.finfo(float).tiny)))

    def scaled(self, scale: Floats) -> Intervals:
        """For targets of the tasks that are `scale` times as large."""
        return replace(self, noise=self.noise * scale)

    def reach(self, coverage: float, tasks: Indices64, leverage: Floats) -> Floats:
        """Half the width of the intervals of observations."""
        return np.asarray(self.calibration.factor(coverage) * self.noise[tasks] * np.sqrt(1.0 + leverage))

    # ---- files -------------------------------------------------------------------------------------------------------

    def written(self) -> Arrays:
        return {"noise": self.noise, "scores": self.calibration.scores}

    @classmethod
    def read(cls, arrays: Arrays, n_tasks: int) -> Intervals:
        noise, scores = parts.floats(arrays, "noise", n_tasks), parts.floats(arrays, "scores", None)
        if (noise < 0).any() or (scores < 0).any() or (np.diff(scores) < 0).any():
            raise ValueError("scores")
        return cls(noise, Calibration(scores))


def shrunk(totals: Floats, counts: Any, mean: float, pooled: float) -> Floats:
    """Means of several groups of numbers, to each of which `pooled` numbers of size `mean` are added."""
    if np.isinf(pooled):
        return np.full(len(totals), mean)
    return np.asarray((np.maximum(totals, 0.0) + pooled * mean) / (counts + pooled))


def weight_of_all(sizes: Floats, tasks: Indices64, n_tasks: int) -> float:
    """How many numbers of its own a task needs until its mean tells as much as that of all tasks.

    The variance within tasks relative to that of their true means, which analysis of variance estimates; infinite if
    the means differ by no more than chance explains.
    """
    counts, totals = np.bincount(tasks, minlength=n_tasks), np.bincount(tasks, sizes, n_tasks)
    n, groups = len(sizes), int((counts > 0).sum())
    if n <= groups or groups == 1:
        return np.inf
    means = totals / np.maximum(counts, 1)
    within = float(np.sum((sizes - means[tasks]) ** 2)) / (n - groups)
    between = float(counts @ (means - sizes.mean()) ** 2) - (groups - 1) * within
    between /= n - float(counts @ counts) / n
    return max(within / between, LEAST_POOLED) if between > 0 else np.inf
