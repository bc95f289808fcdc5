"""How long after `max_time`, and after Ctrl-C at a random moment, each call ends that would run for long.

python benchmarks/stopping.py [repeats] [name …]
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from common import peak_memory, report
from rslm import (
    HankelModel,
    InductiveCompletion,
    MatrixCompletion,
    MultiTaskClassifier,
    MultiTaskRegressor,
    ObservedMatrix,
    ReducedRankRegressor,
)
from rslm.datasets import make_ratings, make_series
from rslm.losses import Square
from rslm.measurements import Entries
from rslm.problem import Problem
from rslm.solvers import solve
from rslm.structures import Symmetric

MAX_TIME = 2.0
LATEST = 12.0  # seconds after its begin at which Ctrl-C comes, at most
TOO_LONG = 60.0  # seconds until a call that does not end is killed
Limit = float | None
Call = Callable[[Limit], Any]


def few_ratings(rows: int = 33_095, columns: int = 95_845, count: int = 176_019) -> ObservedMatrix:
    """From 1 to 10, with few for most rows and columns, as in the Book-Crossing data."""
    rng = np.random.default_rng(0)
    i = np.concatenate([np.arange(rows), (rows * rng.random(2 * count) ** 4).astype(int)])
    j = np.concatenate([rng.integers(columns, size=rows), (columns * rng.random(2 * count) ** 3).astype(int)])
    keys = np.unique(i * columns + j)
    keys = keys[rng.permutation(len(keys))[:count]]
    i, j = keys // columns, keys % columns
    of_rows, of_columns = rng.normal(0, 1.0, rows), rng.normal(0, 0.8, columns)
    values = np.clip(np.round(7.6 + of_rows[i] + of_columns[j] + rng.standard_normal(len(i))), 1, 10)
    return ObservedMatrix.from_triplets(i, j, values, shape=(rows, columns))


def ratings(count: int = 4_000_000) -> ObservedMatrix:
    return make_ratings(40_000, 20_000, count, rank=8, noise=0.3, random_state=0).data


def completion(**settings: Any) -> Call:
    data = few_ratings() if "bounds" in settings else ratings()
    return lambda limit: MatrixCompletion(
        **{"rank": 40, "C": 1e4, "effects": None, "tol": 0.0} | settings, max_time=limit
    ).fit(data)


def search() -> Call:
    data = ratings()
    return lambda limit: MatrixCompletion(max_time=limit, random_state=0).fit(data)


def series() -> Call:
    y = make_series(100_000, 8, noise=0.5, random_state=0).y
    return lambda limit: HankelModel(max_time=limit).fit(y)


def tasks(kind: type[Any]) -> Call:
    rng = np.random.default_rng(0)
    X, t = rng.standard_normal((400_000, 120)), rng.integers(2000, size=400_000)
    y = X @ rng.standard_normal(120) + rng.standard_normal(len(X)) * 10
    targets: Any = y > 0 if kind is MultiTaskClassifier else y
    return lambda limit: kind(20, 100.0, tol=0.0, max_time=limit).fit(X, targets, tasks=t)


def reduced_rank(loss: str, rows: int = 20_000) -> Call:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 300))
    Y = X @ rng.standard_normal((300, 200)) + rng.standard_normal((rows, 200))
    return lambda limit: ReducedRankRegressor(20, 100.0, loss=loss, tol=0.0, max_time=limit).fit(X, Y)


def inductive() -> Call:
    data, rng = ratings(1_000_000), np.random.default_rng(0)
    features = rng.standard_normal((data.shape[0], 60)), rng.standard_normal((data.shape[1], 60))
    model = InductiveCompletion(20, 1e3, tol=0.0)
    return lambda limit: model.set_params(max_time=limit).fit(
        data, row_features=features[0], column_features=features[1]
    )


def symmetric() -> Call:
    rng, n = np.random.default_rng(0), 2000
    places = rng.integers(n, size=(2, 800_000))
    factor = rng.standard_normal((n, 5))
    values = np.einsum("ik,ik->i", factor[places[0]], factor[places[1]])
    data = ObservedMatrix.from_triplets(places[0], places[1], values, shape=(n, n), duplicates="mean")
    problem = Problem(Square(), Entries(data), Symmetric(n), C=1e3)
    return lambda limit: solve(problem, 10, tol=0.0, max_time=limit)


def filling() -> Call:
    data, new = ratings(400_000), ratings(8_000_000)
    model = MatrixCompletion(100, 1e3, loss="huber", effects=None, max_iter=2).fit(data)
    return lambda limit: model.recommend_for(new)


def recommending() -> Call:
    data = few_ratings()
    model = MatrixCompletion(100, 1e3, effects=None, max_iter=2).fit(data)
    return lambda limit: model.recommend(np.arange(data.shape[0]))


def streaming() -> Call:
    data = ratings()
    model = MatrixCompletion(60, 1e3, effects=None)

    def learn(limit: Limit) -> Any:
        while True:
            model.partial_fit(data)

    return learn


CALLS: dict[str, tuple[Callable[[], Call], bool]] = {  # what makes the call, and whether it knows max_time
    "bounds": (lambda: completion(rank=10, C=7000.0, bounds=(1, 10), weighting=0.5), True),
    "bounds, huber": (lambda: completion(rank=10, C=7000.0, bounds=(1, 10), weighting=0.5, loss="huber"), True),
    "square": (completion, True),
    "absolute": (lambda: completion(loss="absolute"), True),
    "logistic-like": (lambda: completion(loss="huber"), True),
    "search": (search, True),
    "series": (series, True),
    "tasks": (lambda: tasks(MultiTaskRegressor), True),
    "classes": (lambda: tasks(MultiTaskClassifier), True),
    "reduced rank": (lambda: reduced_rank("huber"), True),
    "reduced rank, square": (lambda: reduced_rank("square", 150_000), True),
    "inductive": (inductive, True),
    "symmetric": (symmetric, True),
    "recommend_for": (filling, False),
    "recommend": (recommending, False),
    "partial_fit": (streaming, False),
}


def child(name: str, limit: Limit) -> None:
    """What the processes do that are stopped."""
    warnings.simplefilter("ignore")
    call = CALLS[name][0]()
    print("begins", flush=True)
    began = time.perf_counter()
    try:
        found = call(limit)
        outcome = getattr(found, "outcome_", None) or getattr(getattr(found, "outcome", None), "value", "done")
    except KeyboardInterrupt:
        outcome = "KeyboardInterrupt"
    ended = time.time()
    told = {"seconds": time.perf_counter() - began, "ended": ended, "outcome": outcome, "GB": peak_memory() / 1e9}
    print(json.dumps(told), flush=True)


def run(name: str, limit: Limit, press: float | None) -> dict[str, Any]:
    """One call in a process of its own; `late` is how long after the limit, or Ctrl-C, it has ended."""
    words = [sys.executable, __file__, "--call", name, str(limit)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    pressed = time.time() + (limit or 0.0)
    if press is not None:
        time.sleep(press)
        pressed = time.time()
        process.send_signal(signal.SIGINT)
    try:
        told: dict[str, Any] = json.loads(process.communicate(timeout=TOO_LONG)[0])
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"late": float("inf"), "outcome": "killed", "GB": float("nan")}
    return told | {"late": told["ended"] - pressed}


def row(name: str, repeats: int, chance: random.Random) -> dict[str, Any]:
    limited = [run(name, MAX_TIME, None) for _ in range(repeats)] if CALLS[name][1] else []
    pressed = [run(name, None, chance.uniform(0.0, LATEST)) for _ in range(repeats)]
    return {
        "call": name,
        "after max_time s": max((r["late"] for r in limited), default=float("nan")),
        "after Ctrl-C s": max(r["late"] for r in pressed),
        "outcomes": " ".join(sorted({r["outcome"] for r in limited + pressed})),
        "peak GB": max(r["GB"] for r in limited + pressed),
    }


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    chance, rows = random.Random(0), []
    for name in sys.argv[2:] or CALLS:
        rows.append(row(name, repeats, chance))
        print(rows[-1], flush=True)
    report("stopping", rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--call"]:
        child(sys.argv[2], None if sys.argv[3] == "None" else float(sys.argv[3]))
    else:
        main()
