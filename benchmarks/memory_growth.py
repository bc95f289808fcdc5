"""Does memory grow with the number of fits?

    python benchmarks/memory_growth.py [fits]

Prints the resident memory of this process after the given number of small fits of every kind (default 2,000).
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import numpy as np

from rslm import HankelModel, InductiveCompletion, MatrixCompletion, MultiTaskRegressor, ReducedRankRegressor


def kinds() -> Iterator[Callable[[], object]]:
    """Fits of several kinds, one after the other, for ever."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 30))
    X[rng.random(X.shape) < 0.5] = np.nan
    table, tasks = rng.standard_normal((60, 5)), np.repeat(range(6), 10)
    quick: dict[str, Any] = {"max_iter": 5, "random_state": 0}
    series = np.cos(0.3 * np.arange(60)) + 0.1 * rng.standard_normal(60)
    return cycle(
        [
            lambda: MatrixCompletion(3, 10.0, effects=None, **quick).fit(X),
            lambda: MatrixCompletion(3, 10.0, effects=None, bounds=(-2, 2), **quick).fit(X),
            lambda: (
                MatrixCompletion(3, 10.0, effects=None, loss="absolute", verbose=0, **quick).fit(X).transform(X[:5])
            ),
            lambda: InductiveCompletion(3, **quick).fit(X, row_features=table[:40]),
            lambda: MultiTaskRegressor(2, loss="huber", **quick).fit(table, table[:, 0], tasks=tasks),
            lambda: ReducedRankRegressor(2, **quick).fit(table, table @ table[:5, :5]),
            lambda: HankelModel(2, 10.0, max_iter=5).fit(series),
        ]
    )


def resident() -> float:
    """Megabytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def main(fits: int) -> None:
    warnings.simplefilter("ignore")  # that five iterations are few
    for count, fit in enumerate(kinds(), 1):
        fit()
        if count in (20, 100, 200, 500, 1000, 2000, fits) or count % 5000 == 0:
            gc.collect()
            print(f"{count:6d} fits: {resident():.1f} MB", flush=True)
        if count >= fits:
            return


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
