"""Rows of many related regressions: from a file, or generated with known coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data import Seed, as_generator
from rslm.runtime.types import Floats, Indices64


@dataclass(frozen=True, eq=False)
class Regressions:
    """Many regressions with their rows stacked, as `MultiTaskRegressor.fit(X, y, tasks=tasks)` takes them."""

    X: Floats  #: (n, n_features)
    y: Floats  #: (n,)
    tasks: NDArray[Any]  #: (n,): the task label of every row
    feature_names: tuple[str, ...] | None  #: None if the features have no names


@dataclass(frozen=True, eq=False)
class MadeTasks(Regressions):
    """Synthetic regressions and everything they were computed from, except the noise."""

    noise_floor: float  #: standard deviation of the noise: the RMSE of the truth on new rows
    coef: Floats  #: (n_tasks, n_features)
    intercept: Floats  #: (n_tasks,)
    subspace: Floats  #: (n_features, rank), orthonormal: all coefficients are combinations of its columns


def make_tasks(
    n_tasks: int = 50,
    n_features: int = 20,
    n_rows: int | Sequence[int] = 10,
    rank: int = 3,
    noise: float = 0.1,
    random_state: Seed = None,
) -> MadeTasks:
    """Related regressions: coefficients in a common subspace, an intercept per task, Gaussian features and noise.

    Parameters
    ----------
    n_tasks, n_features : int
    n_rows : int or list of int
        Number of rows of every task, or one number per task.
    rank : int
        Dimension of the subspace, at most n_tasks and n_features.
    noise : float
        Standard deviation of the noise. Without it, a target deviates from the task's intercept by about √rank.
    random_state : int, RandomState, Generator or None

    Examples
    --------
    >>> from rslm.datasets import make_tasks
    >>> made = make_tasks(n_tasks=30, n_features=12, n_rows=8, rank=2, random_state=0)
    >>> made.X.shape, made.coef.shape
    ((240, 12), (30, 12))
    """
    if not 1 <= rank <= min(n_tasks, n_features):
        raise ValueError(
            f"rank is {rank}, but {n_tasks} tasks with {n_features} features allow 1 to {min(n_tasks, n_features)}."
        )
    if not noise >= 0:
        raise ValueError(f"noise is {noise!r}, but a standard deviation of 0 or more is needed.")
    counts = _counts(n_rows, n_tasks)
    rng = as_generator(random_state)
    subspace = np.linalg.qr(rng.standard_normal((n_features, rank)))[0]
    coef = rng.standard_normal((n_tasks, rank)) @ subspace.T
    intercept = rng.standard_normal(n_tasks)
    tasks = np.repeat(np.arange(n_tasks), counts)
    X = rng.standard_normal((len(tasks), n_features))
    y = np.einsum("nd,nd->n", X, coef[tasks]) + intercept[tasks] + noise * rng.standard_normal(len(tasks))
    return MadeTasks(X, y, tasks, None, float(noise), coef, intercept, subspace)


def _counts(n_rows: int | Sequence[int], n_tasks: int) -> Indices64:
    counts = np.array(n_rows)
    if counts.shape not in ((), (n_tasks,)) or counts.dtype.kind not in "iu" or np.any(counts < 1):
        raise ValueError(
            f"n_rows is {n_rows!r}, but a number of 1 or more is needed, or {n_tasks} of them: one per task."
        )
    return np.broadcast_to(counts, n_tasks).astype(np.int64)
