"""Matrix completion: the paper's table of test errors, on every data set that is here, and the curves of its figures.

Settings are chosen on 5 % of the training part of the first split: the regularisation in decades, then between them,
and the number of iterations after which the held-out error was least, for the column "stopped early". Then each of five
splits is fitted with them, without looking at its test part.

The methods with a trace norm are run once more, with the weight at which their problem has the stationary points of
RSLM: μ = ‖W‖_* / C. So differences between them are those of the algorithms, not those of the grids of weights.
"""

from __future__ import annotations

import importlib
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from paper import ratings
from paper.cells import Cell, Plan, Result
from paper.gap import relative_gap, trade
from paper.methods.completion import OTHERS, OURS, SAME_PROBLEM, SPECTRAHEDRON, sources
from paper.observed import Entries
from paper.record import Record
from paper.studies.completion_page import section
from rslm.kernels import predict_pairs
from rslm.linalg.low_rank import nuclear_norm
from rslm.runtime.types import Floats, Indices64

RANK, SEEDS = 10, 5
METHODS = OURS + OTHERS
LIMIT, TUNING_LIMIT, QUICK_LIMIT = 60.0, 20.0, 2.0  # seconds of a fit
BETWEEN = (10**-0.5, 10**-0.25, 10**0.25, 10**0.5)  # relative to the best decade
WORSE = 0.03  # above the least error by this much twice in a row: weaker regularisation is not tried
POINTS = 60  # of a curve
CLOSE = 0.001


def study(quick: bool) -> Plan:
    names = (ratings.GENERATED,) if quick else ratings.NAMES
    here = [name for name in names if ratings.load(name) is not None]
    pairs = list(product(here, METHODS))
    limit = QUICK_LIMIT if quick else LIMIT
    tuned = yield [
        Cell(
            f"{name}, {method}: regularisation",
            f"{__name__}:choose",
            {"name": name, "method": method, "limit": QUICK_LIMIT if quick else TUNING_LIMIT},
            _of(method),
        )
        for name, method in pairs
    ]
    found = dict(zip(pairs, tuned, strict=True))
    seeds = range(2 if quick else SEEDS)
    runs = [(*pair, seed) for pair in pairs if "error" not in found[pair] for seed in seeds]
    results = yield [
        _fit(name, method, seed, limit, weight, found[name, method]["iterations"], weight * (method in SPECTRAHEDRON))
        for name, method, seed in runs
        for weight in (found[name, method]["weight"],)
    ]
    fits = dict(zip(runs, results, strict=True))
    ours = {(n, s): r for (n, m, s), r in fits.items() if m == "rslm_tr" and "error" not in r}
    others = [(name, method, seed) for name, seed in ours for method in SAME_PROBLEM if method not in SPECTRAHEDRON]
    results = yield [
        _fit(name, method, seed, limit, ours[name, seed]["trace norm"] / C, 0, C, ": the same problem")
        for name, method, seed in others
        for C in (found[name, "rslm_tr"]["weight"],)
    ]
    same = dict(zip(others, results, strict=True))
    return section(names, found, fits, same)


def _fit(
    name: str, method: str, seed: int, limit: float, weight: float, iterations: int, C: float, more: str = ""
) -> Cell:
    given = {"name": name, "method": method, "seed": seed, "limit": limit, "weight": weight}
    label = f"{name}, {method}: split {seed}{more}"
    return Cell(label, f"{__name__}:fit", given | {"iterations": iterations, "C": C}, _of(method))


def _of(method: str) -> tuple[str, ...]:
    return (__name__, "paper.observed", "paper.record", "paper.ratings", "paper.gap", *sources(method))


def choose(name: str, method: str, limit: float) -> Result:
    """The regularisation and the number of iterations with the least error on held-out training entries."""
    module = importlib.import_module(f"paper.methods.completion.{method}")
    train, _ = ratings.split(len(_loaded(name)[0]), 0)
    inside, held = ratings.held_out(train)
    data = entries(name, inside)
    tried: dict[float, dict[str, float]] = {}

    def attempt(weight: float) -> None:
        record = followed(name, module, data, held, weight, limit)
        errors = [p["error"] for p in record.points]
        tried[weight] = {"error": errors[-1], "least": min(errors), "iterations": int(np.argmin(errors))}

    for weight in module.GRID:
        attempt(weight)
        least = min(t["error"] for t in tried.values())
        if len(tried) > 1 and all(t["error"] > least + WORSE for t in list(tried.values())[-2:]):
            break
    if len(module.GRID) > 1 and name != ratings.GENERATED:
        best = min(tried, key=lambda w: tried[w]["error"])
        for factor in BETWEEN:
            attempt(best * factor)
    best = min(tried, key=lambda w: tried[w]["error"])
    return {
        "weight": best,
        "iterations": tried[best]["iterations"],
        "tried": [{"weight": w} | t for w, t in tried.items()],
    }


def fit(name: str, method: str, seed: int, limit: float, weight: float, iterations: int, C: float) -> Result:
    """One split: errors at the end, after `iterations`, and the least; objectives at C unless it is 0; times; gap."""
    module = importlib.import_module(f"paper.methods.completion.{method}")
    train, test = ratings.split(len(_loaded(name)[0]), seed)
    data = entries(name, train)
    record = followed(name, module, data, test, weight, limit, C)
    seconds = np.array([p["seconds"] for p in record.points])
    errors = np.array([p["error"] for p in record.points])
    gap = float("nan")
    if method in SAME_PROBLEM:
        gap = relative_gap(data, *record.last, weight if method in OURS else trade(*record.last, weight))
    close = np.flatnonzero(np.abs(errors - errors[-1]) > CLOSE)
    first = int(close[-1]) + 1 if len(close) else 0  # from here on it stays within CLOSE of the final error
    keep = np.unique(np.linspace(0, len(errors) - 1, POINTS).astype(int))
    return {
        "final": float(errors[-1]),
        "stopped": float(errors[min(iterations, len(errors) - 1)]),
        "least": float(errors.min()),
        "seconds": float(seconds[-1]),
        "close": float(seconds[first]),
        "ended": record.ended,
        "iterations": len(errors) - 1,
        "gap": gap,
        "trace norm": nuclear_norm(*record.last),
        "objective": record.points[-1]["objective"],
        "curve": [seconds[keep].tolist(), errors[keep].tolist()],
        "objectives": [record.points[k]["objective"] for k in keep],
    }


def followed(
    name: str, module: Any, data: Entries, at: Indices64, weight: float, limit: float, C: float = 0.0
) -> Record:
    """Run a method and score every iterate at the entries `at`, and by the objective of RSLM with this C."""
    rows, cols, values, _ = _loaded(name)
    i, t, y = rows[at], cols[at], values[at]

    def score(left: Floats, right: Floats) -> dict[str, float]:
        error = predict_pairs(i, t, left, right, 1) - y
        found = {"error": float(np.sqrt(np.mean(error**2))), "objective": 0.0}
        if C:
            rest = data.y - data.at(left, right)
            found["objective"] = C * float(rest @ rest) + 0.5 * nuclear_norm(left, right) ** 2
        return found

    return Record(score, limit).run(lambda record: module.fit(data, RANK, weight, record))


def entries(name: str, at: Indices64) -> Entries:
    rows, cols, values, shape = _loaded(name)
    return Entries.of(rows[at], cols[at], values[at], shape)


@cache
def _loaded(name: str) -> ratings.Triplets:
    found = ratings.load(name)
    if found is None:
        raise FileNotFoundError(f"{name} is {ratings.absent(name)}")
    return found
