"""Samples that arrive over time: one and two passes of MovieLens-1M beside the batch fit; and new samples folded in.

python benchmarks/streaming.py [movielens] [serving]
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from common import SHARED, best_seconds, needed, report, rmse
from rslm import MatrixCompletion, Objective, ObservedMatrix, Problem
from rslm.datasets import make_ratings
from rslm.losses import Square
from rslm.measurements import Entries

RANK, C = 10, 1e3


def movielens() -> None:
    file = np.load(needed(SHARED / "data" / "ml-1m" / "ml-1m.npz"))
    at = np.random.default_rng(0).permutation(1_000_209)
    users = np.random.default_rng(1).permutation(6040)[file["col"]]  # in random order

    def matrix(part: Any) -> ObservedMatrix:
        values = file["value"][part].astype(np.float64)
        return ObservedMatrix.from_triplets(users[part], file["row"][part], values, shape=(6040, 3706))

    train, test = matrix(at[:800_167]), matrix(at[800_167:])
    whole = Objective(Problem(Square(), Entries.of_transposed(train), C=C))
    rows: list[dict[str, Any]] = []

    def add(name: str, seconds: float, U: Any) -> None:
        found = whole.evaluate(U)
        error = rmse(found.V, U, test.rows_of_entries(), test.index, test.values)
        rows.append({"": name, "s": seconds, "objective": found.value, "test RMSE": error})
        rows[-1]["above the batch fit %"] = 100 * (found.value / rows[0]["objective"] - 1)

    began = time.perf_counter()
    batch = MatrixCompletion(RANK, C, effects=None, random_state=0, warm_start=True).fit(train)
    add("batch fit", time.perf_counter() - began, batch.col_factors_ / np.linalg.norm(batch.col_factors_))
    model = MatrixCompletion(RANK, C, effects=None, random_state=0)
    began = time.perf_counter()
    for name in ("one pass", "two passes"):
        model.partial_fit(train)
        U = model.col_factors_ / np.linalg.norm(model.col_factors_)
        add(name, time.perf_counter() - began, U)
    began = time.perf_counter()
    model.set_params(warm_start=True).fit(train)
    add("polished", time.perf_counter() - began, model.col_factors_ / np.linalg.norm(model.col_factors_))
    report("streaming", rows)


def serving() -> None:
    """New samples of 100 entries each."""
    model = MatrixCompletion(RANK, 500.0, effects=None, random_state=0, tol=1e-3)
    model.fit(make_ratings(3000, 2000, 300_000, random_state=0).data)
    rng = np.random.default_rng(0)
    index = np.sort(np.argsort(rng.random((1000, 2000)), axis=1)[:, :100], axis=1).astype(np.int32)
    n = 100_000
    values = 3.5 + rng.standard_normal(100 * n)
    many = ObservedMatrix(np.arange(0, 100 * n + 1, 100), np.tile(index, (n // 1000, 1)).ravel(), values, (n, 2000))
    one = ObservedMatrix(np.array([0, 100]), index[0], values[:100], (1, 2000))
    fold = best_seconds(lambda: model._folded(many), 3)[0]
    recommend = best_seconds(lambda: model.recommend_for(many, 10), 1)[0]
    rows = [
        {"": "fold in, samples a second", "value": n / fold},
        {"": "fold in and recommend, samples a second", "value": n / recommend},
        {"": "one sample filled, ms", "value": 1e3 * best_seconds(lambda: model.transform(one), 200)[0]},
        {"": "one sample, recommended for, ms", "value": 1e3 * best_seconds(lambda: model.recommend_for(one), 200)[0]},
    ]
    report("serving", rows)


if __name__ == "__main__":
    for name in sys.argv[1:] or ("movielens", "serving"):
        {"movielens": movielens, "serving": serving}[name]()
