"""Non-negative completion: the paper's table of test errors at three ranks, and the curves of its two figures.

C is chosen on 5 % of the training part of the first split, for every method and rank on its own, and so is the number
of iterations after which the held-out error was least. Then each of five splits is fitted with them.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import numpy as np

from paper import ratings
from paper.cells import Cell, Plan, Result
from paper.observed import Entries
from paper.record import Record
from paper.studies.nonnegative_page import section
from rslm.kernels import predict_pairs
from rslm.linalg.low_rank import nuclear_norm
from rslm.runtime.types import Floats, Indices64

RANKS, SEEDS = (5, 10, 20), 5
METHODS = ("rslm_nonnegative", "rslm_weighted", "bmc", "bma")
SAME_PROBLEM = ("rslm_nonnegative", "bmc")
LIMIT, QUICK_LIMIT = 60.0, 2.0  # seconds of a fit
TUNING_LIMIT = {"bma": 45.0}  # BMA has one tuning fit a rank
OTHER_TUNING_LIMIT = 15.0
BETWEEN = (10**-0.5, 10**-0.25, 10**0.25, 10**0.5)  # relative to the best decade
OBJECTIVES = ((10, 1e3), (5, 1e4))  # rank and C of the figure of objectives
NEVER = 10**9  # iterations: the held-out error was still falling when the tuning fit ended
POINTS = 60  # of a curve
BLOCK = 512  # rows of W at a time


def study(quick: bool) -> Plan:
    names = (ratings.GENERATED,) if quick else ("ML-1M", "ML-10M", "ML-20M")
    here = [name for name in names if ratings.load(name) is not None]
    keys = [(name, method, rank) for name in here for method in METHODS for rank in (RANKS[:2] if quick else RANKS)]
    tuned = yield [
        Cell(
            f"{name}, {method}, rank {rank}: C",
            f"{__name__}:choose",
            {"name": name, "method": method, "rank": rank}
            | {"limit": QUICK_LIMIT if quick else TUNING_LIMIT.get(method, OTHER_TUNING_LIMIT)},
            _of(method),
        )
        for name, method, rank in keys
    ]
    found = {key: t for key, t in zip(keys, tuned, strict=True) if "error" not in t}
    runs = [(key, seed) for key in found for seed in range(2 if quick else SEEDS)]
    same = [(name, method, rank, C) for name in here for rank, C in OBJECTIVES for method in SAME_PROBLEM]
    common = {"limit": QUICK_LIMIT if quick else LIMIT}
    results = yield [
        Cell(
            f"{name}, {method}, rank {rank}: split {seed}",
            f"{__name__}:fit",
            {"name": name, "method": method, "rank": rank, "seed": seed, **common}
            | {key: found[name, method, rank][key] for key in ("weight", "iterations")},
            _of(method),
        )
        for (name, method, rank), seed in runs
    ] + [
        Cell(
            f"{name}, {method}, rank {rank}, C = {C:g}: objective",
            f"{__name__}:fit",
            {"name": name, "method": method, "rank": rank, "seed": 0, "weight": C, "iterations": NEVER, **common},
            _of(method),
        )
        for name, method, rank, C in same
    ]
    pairs = zip(runs, results[: len(runs)], strict=True)
    fits: dict[tuple[str, str, int], list[Result]] = {key: [] for key in found}
    for (key, _), result in pairs:
        fits[key] += [result] if "error" not in result else []
    curves = {key: r for key, r in zip(same, results[len(runs) :], strict=True) if "error" not in r}
    return section(names, here, found, fits, curves)


def _of(method: str) -> tuple[str, ...]:
    more = {"rslm_weighted": ("paper.methods.completion.estimator",), "bma": ("paper.methods.nonnegative.bmc",)}
    common = (__name__, "paper.observed", "paper.record", "paper.ratings")
    return (*common, *more.get(method, ()), f"paper.methods.nonnegative.{method}")


def choose(name: str, method: str, rank: int, limit: float) -> Result:
    """The C and the number of iterations with the least error on held-out training entries."""
    module = importlib.import_module(f"paper.methods.nonnegative.{method}")
    inside, held = ratings.held_out(ratings.split(len(_loaded(name)[0]), 0)[0])
    data = entries(name, inside)
    tried: list[Result] = []

    def attempt(weight: float) -> None:
        record = followed(name, module, data, held, rank, weight, limit)
        errors = [p["rmse"] for p in record.points]
        least = int(np.argmin(errors))
        still = record.ended != "converged" and least == len(errors) - 1
        tried.append({"weight": weight, "rmse": errors[-1], "iterations": NEVER if still else least})

    for weight in module.GRID:
        attempt(weight)
    if len(module.GRID) > 1 and name != ratings.GENERATED:
        centre = min(tried, key=lambda t: t["rmse"])["weight"]
        for factor in BETWEEN:
            attempt(centre * factor)
    return min(tried, key=lambda t: t["rmse"]) | {"tried": tried}


def fit(name: str, method: str, rank: int, seed: int, limit: float, weight: float, iterations: int) -> Result:
    """One split: errors at the end and after the number of iterations chosen, the smallest entry, time and curves."""
    module = importlib.import_module(f"paper.methods.nonnegative.{method}")
    train, test = ratings.split(len(_loaded(name)[0]), seed)
    record = followed(name, module, entries(name, train), test, rank, weight, limit)
    seconds, rmse, value = (np.array([p[key] for p in record.points]) for key in ("seconds", "rmse", "objective"))
    keep = np.unique(np.linspace(0, len(rmse) - 1, POINTS).astype(int))
    return {
        "rmse": float(rmse[-1]),
        "stopped": float(rmse[min(iterations, len(rmse) - 1)]),
        "objective": float(value[-1]),
        "smallest": smallest(*record.last),
        "seconds": float(seconds[-1]),
        "ended": record.ended,
        "curve": [seconds[keep].tolist(), rmse[keep].tolist()],
        "objectives": [seconds[keep].tolist(), value[keep].tolist()],
    }


def followed(name: str, module: Any, data: Entries, at: Indices64, rank: int, C: float, limit: float) -> Record:
    """Run a method and score every iterate: RMSE at the entries `at`, and C · squares + ½ ‖W‖_*² on its own data."""
    rows, cols, values, _ = _loaded(name)
    i, t, y = rows[at], cols[at], values[at]

    def score(left: Floats, right: Floats) -> dict[str, float]:
        rmse = float(np.sqrt(np.mean((predict_pairs(i, t, left, right, 1) - y) ** 2)))
        squares = float(np.sum((data.at(left, right) - data.y) ** 2))
        return {"rmse": rmse, "objective": C * squares + 0.5 * nuclear_norm(left, right) ** 2}

    return Record(score, limit).run(lambda record: module.fit(data, rank, C, record))


def smallest(left: Floats, right: Floats) -> float:
    """The smallest of all entries of W."""
    return min(float((left[k : k + BLOCK] @ right.T).min()) for k in range(0, len(left), BLOCK))


def entries(name: str, at: Indices64) -> Entries:
    rows, cols, values, shape = _loaded(name)
    return Entries.of(rows[at], cols[at], values[at], shape)


@cache
def _loaded(name: str) -> ratings.Triplets:
    found = ratings.load(name)
    if found is None:
        raise FileNotFoundError(f"{name} is {ratings.absent(name)}")
    return found
