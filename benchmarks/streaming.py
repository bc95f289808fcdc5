"""Samples that arrive over time: one and two passes of MovieLens-1M beside the batch fit; and new samples folded in.

Ratings with effects are generated: streams with effects and without beside the fit and effects alone.

python benchmarks/streaming.py [movielens] [effects] [serving]
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from common import SHARED, best_seconds, needed, report, rmse
from rslm import MatrixCompletion, Objective, ObservedMatrix, Problem
from rslm.datasets import make_ratings
from rslm.estimators.completion.learned import effects_entries
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


def effects() -> None:
    """Ratings of 10,000 users with effects of users and items and a part of rank 3."""
    rng = np.random.default_rng(0)
    n, m, rank = 10_000, 500, 3
    W = 3.0 + 0.45 * rng.standard_normal((n, 1)) + 0.4 * rng.standard_normal(m)
    W = W + 0.5 / np.sqrt(rank) * rng.standard_normal((n, rank)) @ rng.standard_normal((rank, m))
    users, items = np.nonzero(rng.random((n, m)) < 0.04)
    y = W[users, items] + 0.8 * rng.standard_normal(len(users))
    held = rng.random(len(y)) < 0.2
    train, test = (ObservedMatrix.from_triplets(users[k], items[k], y[k], (n, m)) for k in (~held, held))

    def error(model: MatrixCompletion) -> float:
        left, right = model._folded(train)
        return rmse(left, right, test.rows_of_entries(), test.index, test.values)

    C = 30.0
    fit = MatrixCompletion(rank, C, weighting=0, random_state=0).fit(train)
    alone = effects_entries(fit, train, test)
    rows = [
        {"": "effects alone", "test RMSE": float(np.sqrt(np.mean((alone - test.values) ** 2)))},
        {"": "fit", "test RMSE": error(fit)},
    ]
    for name, asked in (("stream", "auto"), ("stream without effects", None)):
        model = MatrixCompletion(rank, C, effects=asked, weighting=0, random_state=0)
        for passed in ("one pass", "two passes"):
            rows.append({"": f"{name}, {passed}", "test RMSE": error(model.partial_fit(train))})
    model = MatrixCompletion(random_state=0)
    for start in range(0, n, 1000):
        at = slice(int(train.indptr[start]), int(train.indptr[start + 1000]))
        own = train.indptr[start : start + 1001] - train.indptr[start]
        model.partial_fit(ObservedMatrix(own, train.index[at], train.values[at], (1000, m)))
    rows.append({"": "stream, nothing given, 1,000 samples a call", "test RMSE": error(model)})
    report("streaming with effects", rows)


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
    for name in sys.argv[1:] or ("movielens", "effects", "serving"):
        {"movielens": movielens, "effects": effects, "serving": serving}[name]()
