"""Non-negative completion: the paper's table of test errors at three ranks, and the curves of its two figures.

C is chosen on 5 % of the training part of the first split, for every method and rank on its own, once for the error at
the end of a fit and once for the least error along it. Then each of five splits is fitted with these.
"""

from __future__ import annotations

import importlib
from itertools import product
from typing import Any

import numpy as np

from paper import ratings
from paper.cells import Cell, Plan, Result
from paper.observed import Entries
from paper.record import Record
from paper.studies.nonnegative_page import section
from paper.tuning import BETWEEN, choose
from rslm.kernels import predict_pairs
from rslm.linalg.low_rank import nuclear_norm
from rslm.runtime.types import Floats, Indices64

RANKS, SEEDS = (5, 10, 20), 5
METHODS = ("rslm_nonnegative", "rslm_weighted", "bmc", "bma")
SAME_PROBLEM = ("rslm_nonnegative", "bmc")
LIMIT, QUICK_LIMIT = 45.0, 2.0  # seconds of a fit
TUNING_LIMIT = {"bma": 45.0}  # BMA has one tuning fit a rank
OTHER_TUNING_LIMIT = 12.0
OBJECTIVES = ((10, 1e3), (5, 1e4))  # rank and C of the figure of objectives
POINTS = 60  # of a curve
BLOCK = 512  # rows of W at a time


def study(quick: bool) -> Plan:
    names = (ratings.GENERATED,) if quick else ("ML-1M", "ML-10M", "ML-20M")
    here = [name for name in names if ratings.load(name) is not None]
    keys = list(product(here, METHODS, RANKS[:2] if quick else RANKS))
    tuned = yield [
        Cell(
            f"{name}, {method}, rank {rank}: C",
            f"{__name__}:tune",
            {"name": name, "method": method, "rank": rank}
            | {"limit": QUICK_LIMIT if quick else TUNING_LIMIT.get(method, OTHER_TUNING_LIMIT)},
            (*_of(method), "paper.tuning"),
        )
        for name, method, rank in keys
    ]
    found = {key: t for key, t in zip(keys, tuned, strict=True) if "error" not in t}
    wanted = [(key, kind, seed) for key in found for kind in ("end", "early") for seed in range(2 if quick else SEEDS)]
    same = [(name, method, rank, C) for name in here for rank, C in OBJECTIVES for method in SAME_PROBLEM]
    runs = [(*key, seed, found[key][kind]) for key, kind, seed in wanted]
    runs += [(name, method, rank, 0, C) for name, method, rank, C in same]
    unique = list(dict.fromkeys(runs))
    results = yield [
        Cell(
            f"{name}, {method}, rank {rank}, C = {C:.3g}: split {seed}",
            f"{__name__}:fit",
            {
                "name": name,
                "method": method,
                "rank": rank,
                "seed": seed,
                "C": C,
                "limit": QUICK_LIMIT if quick else LIMIT,
            },
            _of(method),
        )
        for name, method, rank, seed, C in unique
    ]
    by_run = {run: r for run, r in zip(unique, results, strict=True) if "error" not in r}
    fits: dict[tuple[str, str, int, str], list[Result]] = {(*key, kind): [] for key, kind, _ in wanted}
    for (key, kind, _), run in zip(wanted, runs, strict=False):
        fits[*key, kind] += [by_run[run]] if run in by_run else []
    curves = {key: by_run[*key[:3], 0, key[3]] for key in same if (*key[:3], 0, key[3]) in by_run}
    return section(names, here, found, fits, curves)


def _of(method: str) -> tuple[str, ...]:
    more = {"rslm_weighted": ("paper.methods.completion.estimator",), "bma": ("paper.methods.nonnegative.bmc",)}
    package = ("rslm",) if method.startswith("rslm") else ("rslm.kernels", "rslm.linalg")
    common = (__name__, "paper.observed", "paper.record", "paper.ratings", *package)
    return (*common, *more.get(method, ()), f"paper.methods.nonnegative.{method}")


def tune(name: str, method: str, rank: int, limit: float) -> Result:
    """C, from held-out entries of the training part of the first split."""
    module = importlib.import_module(f"paper.methods.nonnegative.{method}")
    inside, held = ratings.held_out(ratings.parts(name, 0)[0])
    data = ratings.entries(name, inside)

    def errors_of(C: float) -> list[float]:
        return [p["rmse"] for p in followed(name, module, data, held, rank, C, limit).points]

    return choose(errors_of, module.GRID, () if name == ratings.GENERATED else BETWEEN)


def fit(name: str, method: str, rank: int, seed: int, C: float, limit: float) -> Result:
    """One split: errors at the end and the least, the smallest entry, time and curves."""
    module = importlib.import_module(f"paper.methods.nonnegative.{method}")
    train, test = ratings.parts(name, seed)
    record = followed(name, module, ratings.entries(name, train), test, rank, C, limit)
    seconds, rmse, value = (np.array([p[key] for p in record.points]) for key in ("seconds", "rmse", "objective"))
    keep = np.unique(np.linspace(0, len(rmse) - 1, POINTS).astype(int))
    return {
        "rmse": float(rmse[-1]),
        "least": float(rmse.min()),
        "objective": float(value[-1]),
        "smallest": smallest(*record.last),
        "seconds": float(seconds[-1]),
        "ended": record.ended,
        "curve": [seconds[keep].tolist(), rmse[keep].tolist()],
        "objectives": [seconds[keep].tolist(), value[keep].tolist()],
    }


def followed(name: str, module: Any, data: Entries, at: Indices64, rank: int, C: float, limit: float) -> Record:
    """Run a method and score every iterate: RMSE at the entries `at`, and C · squares + ½ ‖W‖_*² on its own data."""
    rows, cols, values, _ = ratings.loaded(name)
    i, t, y = rows[at], cols[at], values[at]

    def score(left: Floats, right: Floats) -> dict[str, float]:
        rmse = float(np.sqrt(np.mean((predict_pairs(i, t, left, right, 1) - y) ** 2)))
        squares = float(np.sum((data.at(left, right) - data.y) ** 2))
        return {"rmse": rmse, "objective": C * squares + 0.5 * nuclear_norm(left, right) ** 2}

    return Record(score, limit).run(lambda record: module.fit(data, rank, C, record))


def smallest(left: Floats, right: Floats) -> float:
    """The smallest of all entries of W."""
    return min(float((left[k : k + BLOCK] @ right.T).min()) for k in range(0, len(left), BLOCK))
