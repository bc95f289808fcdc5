"""Whether 90 % intervals of related regressions cover 90 % of new rows, how wide they are, and what they cost.

    python benchmarks/intervals/tasks.py [--splits N]

Three quarters of the rows of every task are learned from, the others are new; of generated data, new rows are in the
same proportions. The small tasks are the tenth with the fewest rows; the worst are the tenth with the lowest coverage.
"unscaled" are intervals of one width for all rows, ± the quantile of the same held-out errors. The cost is the CPU time
of a fit relative to one that keeps nothing for intervals.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import SHARED, best_seconds, report
from rslm import MultiTaskRegressor, ReducedRankRegressor
from rslm.datasets import load_parkinsons, load_school
from rslm.estimators.tasks.calibrated import Calibrated
from rslm.estimators.tasks.intervals import HeldOut, Intervals
from rslm.estimators.tasks.search import Search
from rslm.evaluate.intervals import Calibration

Array = NDArray[Any]
Rows = tuple[Array, Array, Array]  # features, targets, tasks
DATA = Path(os.environ.get("RSLM_DATA") or SHARED / "data")
COVERAGE = 0.9
TENTH = 0.1
DEGREES = 3  # of freedom of Student's t: its fourth moment is infinite


def split(rows: Rows, seed: int) -> tuple[Rows, Rows]:
    """75/25 within every task."""
    X, y, tasks = rows
    rng, held = np.random.default_rng(seed), np.zeros(len(y), dtype=bool)
    for t in np.unique(tasks):
        of = rng.permutation(np.flatnonzero(tasks == t))
        held[of[3 * len(of) // 4 :]] = True
    return (X[~held], y[~held], tasks[~held]), (X[held], y[held], tasks[held])


def school(seed: int) -> tuple[Rows, Rows]:
    found = load_school(folder=DATA)
    return split((found.X, found.y, found.tasks), seed)


def parkinsons(first: int, seed: int) -> tuple[Rows, Rows]:
    """With all features, or from `first` = 3 those of the voice only."""
    found = load_parkinsons(folder=DATA)
    return split((found.X[:, first:], found.y, found.tasks), seed)


def coefficients(rng: np.random.Generator, tasks: int, features: int) -> Array:
    """In a subspace of three directions about the common ones."""
    own = 0.7 * rng.standard_normal((tasks, 3)) @ rng.standard_normal((3, features))
    return np.asarray((rng.standard_normal(features) + own) / np.sqrt(features))


def generated(noises_differ: float, seed: int) -> tuple[Rows, Rows]:
    """60 tasks of 6 to 120 rows, 15 features, heavy tails; `noises_differ` is the deviation of the log of the noise."""
    rng, T, d = np.random.default_rng([seed, 1]), 60, 15
    W, b = coefficients(rng, T, d), rng.standard_normal(T)
    counts = np.exp(rng.uniform(np.log(6), np.log(120), T)).astype(int)
    noise = 0.4 * np.exp(noises_differ * rng.standard_normal(T))

    def rows(times: int) -> Rows:
        tasks = np.repeat(np.arange(T), times * counts)
        X = rng.standard_normal((len(tasks), d))
        errors = noise[tasks] * rng.standard_t(DEGREES, len(tasks))
        return X, np.einsum("nd,nd->n", X, W[tasks]) + b[tasks] + errors, tasks

    return rows(1), rows(5)


def targets(seed: int) -> tuple[Rows, Rows]:
    """150 rows with 30 targets in different units, of which half to nine tenths are missing, and heavy tails."""
    rng, T, d, n = np.random.default_rng([seed, 2]), 30, 15, 150
    W, unit = coefficients(rng, T, d), np.exp(2.0 * rng.standard_normal(T))
    known = rng.uniform(0.1, 0.5, T)

    def rows(count: int) -> Rows:
        X = rng.standard_normal((count, d))
        Y = unit * (X @ W.T + 0.4 * rng.standard_t(DEGREES, (count, T)))
        Y[rng.random(Y.shape) > known] = np.nan
        return X, Y, np.arange(T)

    return rows(n), rows(10 * n)


SETS: dict[str, Callable[[int], tuple[Rows, Rows]]] = {
    "School": school,
    "Parkinsons": partial(parkinsons, 0),
    "Parkinsons, voice only": partial(parkinsons, 3),
    "heavy tails, noises differ": partial(generated, 0.5),
    "heavy tails, equal noise": partial(generated, 0.0),
    "heavy tails, targets of the same rows": targets,
}


def fitted(train: Rows) -> Any:
    X, y, tasks = train
    if y.ndim == 2:
        return ReducedRankRegressor(random_state=0).fit(X, y)
    return MultiTaskRegressor(random_state=0).fit(X, y, tasks=tasks)


@contextmanager
def held_out_errors() -> Iterator[list[HeldOut]]:
    """The errors by which the intervals of fits in this context are calibrated."""
    kept: list[HeldOut] = []
    real = Intervals.of

    def of(held: HeldOut, n_tasks: int) -> Intervals | None:
        kept.append(held)
        return real(held, n_tasks)

    with patch.object(Intervals, "of", of):
        yield kept


def without_intervals(train: Rows) -> None:
    with ExitStack() as stack:
        stack.enter_context(patch.object(Search, "held_out", lambda *_: None))
        stack.enter_context(patch.object(Calibrated, "_keep_errors", lambda *_: None))
        fitted(train)


def measured(train: Rows, test: Rows) -> dict[str, tuple[float, float, float, float]]:
    """For both kinds of intervals: coverage of all rows, of small tasks and of the worst tasks, and mean width."""
    with held_out_errors() as kept:
        model = fitted(train)
    X, y, tasks = test
    if y.ndim == 2:
        lower, upper = model.predict_interval(X, coverage=COVERAGE)
        rows, at = np.nonzero(~np.isnan(y))
        y, lower, upper = y[rows, at], lower[rows, at], upper[rows, at]
        counts = (~np.isnan(train[1])).sum(axis=0)
    else:
        lower, upper = model.predict_interval(X, tasks, COVERAGE)
        at, counts = np.searchsorted(model.tasks_, tasks), np.bincount(np.searchsorted(model.tasks_, train[2]))
    unit = model._units.scale[at]  # widths of targets in different units are those of the fit
    one = unit * Calibration.of(kept[0].errors).factor(COVERAGE)
    small = counts[at] <= np.quantile(counts, TENTH)

    def numbers(reach: Array) -> tuple[float, float, float, float]:
        covered = np.abs(y - 0.5 * (lower + upper)) <= reach
        by_task = np.bincount(at, covered) / np.maximum(np.bincount(at), 1)
        worst = float(np.quantile(by_task[np.unique(at)], TENTH))
        width = 2.0 * reach if np.ptp(model._units.scale) == 0 else 2.0 * reach / unit
        return float(covered.mean()), float(covered[small].mean()), worst, float(width.mean())

    return {"scaled": numbers(0.5 * (upper - lower)), "unscaled": numbers(one)}


def rows_of(name: str, splits: int) -> list[dict[str, Any]]:
    found = [measured(*SETS[name](seed)) for seed in range(splits)]
    train, _ = SETS[name](0)
    cost = best_seconds(lambda: fitted(train), 3)[1] / best_seconds(lambda: without_intervals(train), 3)[1]
    rows = []
    for kind in ("scaled", "unscaled"):
        numbers = np.array([f[kind] for f in found])
        mean, (least, most) = numbers.mean(axis=0), np.quantile(numbers[:, 0], (0.0, 1.0))
        row: dict[str, Any] = {"data": name, "intervals": kind, "covered": mean[0], "least": least, "most": most}
        row |= {"small tasks": mean[1], "worst tasks": mean[2], "width": mean[3]}
        rows.append({k: float(v) if k not in ("data", "intervals") else v for k, v in row.items()})
    rows[0]["cost"] = cost
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=20)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in SETS:
        rows += rows_of(name, given.splits)
        print(rows[-2], rows[-1], sep="\n", flush=True)
    report("intervals-tasks", rows, coverage=COVERAGE, splits=given.splits)


if __name__ == "__main__":
    main()
