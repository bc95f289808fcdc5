"""Non-negative and bounded completion of MovieLens-1M, and of a generated matrix of the size of MovieLens-10M.

    python benchmarks/nonnegative.py movielens    # the paper's table: ranks 5, 10, 20, five splits
    python benchmarks/nonnegative.py cost         # time and memory beside a fit without bounds, rank 10
    python benchmarks/nonnegative.py curve        # objective and time along a fit
    python benchmarks/nonnegative.py large        # 10,677 × 69,878 with 8 million entries

C is tuned on 5 % of the training part of the first split. Every fit is followed by a look at all entries of W: the
smallest and the largest one are in the table.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from common import forget_peak, peak_memory, report
from movielens import Triplets, error, matrix, split
from rslm import MatrixCompletion, ObservedMatrix

RANKS = (5, 10, 20)
GRID = [200.0, 350.0, 500.0, 700.0, 1000.0, 1400.0, 2000.0, 3000.0]
PAPER = {5: 0.8651, 10: 0.8574, 20: 0.8678}
BOUNDS: dict[str, Any] = {"none": None, "(0, None)": (0, None), "(1, 5)": (1, 5)}


def extremes(model: MatrixCompletion) -> tuple[float, float]:
    """The smallest and the largest entry of W, a block of rows at a time."""
    low, high = np.inf, -np.inf
    for k in range(0, len(model.row_factors_), 512):
        W = model.row_factors_[k : k + 512] @ model.col_factors_.T
        low, high = min(low, float(W.min())), max(high, float(W.max()))
    return low, high


def fit(X: Any, rank: int, C: float, bounds: Any, **options: Any) -> tuple[MatrixCompletion, float]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*no observed entry")
        began = time.perf_counter()
        model = MatrixCompletion(rank, C, bounds=bounds, effects=None, random_state=0, **options).fit(X)
        return model, time.perf_counter() - began


def clipped_error(model: MatrixCompletion, t: Triplets) -> float:
    w = np.clip(np.einsum("ij,ij->i", model.row_factors_[t[1]], model.col_factors_[t[0]]), 1, 5)
    return float(np.sqrt(np.mean((w - t[2]) ** 2)))


def tuned(train: Triplets, rank: int, bounds: Any) -> float:
    """The C with the least error on 5 % of the training part."""
    order = np.random.default_rng(7).permutation(len(train[0]))
    cut = len(order) // 20
    inside, held = (tuple(a[k] for a in train) for k in (order[cut:], order[:cut]))
    X, best, least = matrix(inside), GRID[0], np.inf
    for C in GRID:
        now = error(fit(X, rank, C, bounds, tol=1e-3)[0], held)
        if now > least + 2e-3:  # from here on it only grows
            break
        best, least = (C, now) if now < least else (best, least)
    return best


def movielens(seeds: int = 5) -> None:
    rows = []
    for name, bounds in BOUNDS.items():
        for rank in RANKS:
            C = tuned(split(0)[0], rank, bounds)
            errors, lows, highs, seconds, clip = (list[float]() for _ in range(5))
            for seed in range(seeds):
                train, test = split(seed)
                model, s = fit(matrix(train), rank, C, bounds)
                low, high = extremes(model)
                for values, value in (
                    (errors, error(model, test)),
                    (clip, clipped_error(model, test)),
                    (lows, low),
                    (highs, high),
                    (seconds, s),
                ):
                    values.append(value)
            row = {"bounds": name, "rank": rank, "C": C, "test RMSE": f"{np.mean(errors):.4f} ± {np.std(errors):.4f}"}
            row |= {"clipped": f"{np.mean(clip):.4f}", "smallest entry": min(lows), "largest entry": max(highs)}
            row |= {"s": float(np.mean(seconds)), "paper": PAPER[rank] if name == "(0, None)" else ""}
            rows.append(row)
            print(row, flush=True)
    report("nonnegative-movielens", rows, splits=seeds)


def memory_of(name: str) -> float:
    """What a fit needs beyond its data, in a process that has done nothing else."""
    X = matrix(split(0)[0])
    forget_peak()
    before = peak_memory()
    fit(X, 10, 1e3, BOUNDS[name])
    return (peak_memory() - before) / 1e6


def cost() -> None:
    """Best of three in turn, so that all meet the same machine."""
    X = matrix(split(0)[0])
    fit(X, 10, 1e3, None)
    data = ObservedMatrix.from_any(X)
    size = data.values.nbytes + data.index.nbytes + data.indptr.nbytes
    rows: dict[str, dict[str, Any]] = {}
    for _ in range(3):
        for name, bounds in BOUNDS.items():
            model, s = fit(X, 10, 1e3, bounds)
            row = rows.setdefault(name, {"bounds": name, "s": np.inf, "iterations": model.n_iter_})
            row["s"] = min(row["s"], s)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as fresh:
        for name, row in rows.items():
            row["MB"] = fresh.submit(memory_of, name).result()
    for row in rows.values():
        row["× without"] = row["s"] / rows["none"]["s"]
        row["MB more"] = row["MB"] - rows["none"]["MB"]
    report("nonnegative-cost", list(rows.values()), **{"MB of data": size / 1e6})


def curve() -> None:
    X, rows = matrix(split(0)[0]), []
    for name, bounds in BOUNDS.items():
        history = fit(X, 10, 1e3, bounds)[0].history_
        for k in range(len(history["seconds"])):
            row = {key: float(history[key][k]) for key in ("seconds", "objective", "relative_gradient", "softness")}
            rows.append({"bounds": name, "iteration": k} | row)
    report("nonnegative-curve", rows)


def large() -> None:
    """Ratings with users and items of very different activity; the values are 1 to 5 in halves."""
    rng = np.random.default_rng(0)
    users, items, n = 69_878, 10_677, 8_000_000
    u = (users * rng.random(n) ** 1.6).astype(np.int64)
    i = (items * rng.random(n) ** 2.5).astype(np.int64)
    pairs = np.unique(u * items + i)
    u, i = pairs // items, pairs % items
    left = np.abs(rng.standard_normal((users, 6))).astype(np.float32)
    right = np.abs(rng.standard_normal((items, 6))).astype(np.float32)
    y = np.einsum("nk,nk->n", left[u], right[i])
    y = np.clip(np.round(2 * (1 + y + 0.5 * rng.standard_normal(len(y)))) / 2, 0.5, 5).astype(np.float32)
    data = ObservedMatrix.from_triplets(u, i, y, shape=(users, items))
    size, rows = data.values.nbytes + data.index.nbytes + data.indptr.nbytes, []
    for name in ("none", "(0, None)"):
        forget_peak()
        before = peak_memory()
        model, s = fit(data, 10, 1e3, BOUNDS[name], tol=1e-4)
        memory = (peak_memory() - before) / 1e6
        low, high = extremes(model)
        row = {"bounds": name, "entries": len(data), "s": s, "MB": memory, "iterations": model.n_iter_}
        rows.append(row | {"outcome": model.outcome_, "smallest entry": low, "largest entry": high})
    report("nonnegative-large", rows, **{"MB of data": size / 1e6})


if __name__ == "__main__":
    studies = {"movielens": movielens, "cost": cost, "curve": curve, "large": large}
    for study in sys.argv[1:] or list(studies):
        studies[study]()
