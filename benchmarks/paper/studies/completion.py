"""Matrix completion: the paper's table of test errors, on every data set that is here, and the curves of its figures.

Regularisation is chosen on 5 % of the training part of the first split, once for the error at the end of a fit and once
for the least error along it, which is what the paper reports. Each of five splits is fitted with these weights.

The methods with a trace norm are run once more, with the weight at which their problem has the stationary points of
RSLM: μ = ‖W‖_* / C. So differences between them are those of the algorithms, not those of the grids of weights.
"""

from __future__ import annotations

import importlib
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
from paper.tuning import BETWEEN, choose
from rslm.kernels import predict_pairs
from rslm.linalg.low_rank import nuclear_norm
from rslm.runtime.types import Floats, Indices64

RANK, SEEDS = 10, 5
METHODS = OURS + OTHERS
LIMIT, TUNING_LIMIT, QUICK_LIMIT = 60.0, 20.0, 2.0  # seconds of a fit
POINTS = 60  # of a curve
CLOSE = 0.001


def study(quick: bool) -> Plan:
    names = (ratings.GENERATED,) if quick else ratings.NAMES
    here = [name for name in names if ratings.load(name) is not None]
    pairs, seeds, limit = list(product(here, METHODS)), range(2 if quick else SEEDS), QUICK_LIMIT if quick else LIMIT
    tuned = yield [
        Cell(
            f"{name}, {method}: regularisation",
            f"{__name__}:tune",
            {"name": name, "method": method, "limit": QUICK_LIMIT if quick else TUNING_LIMIT},
            (*_of(method), "paper.tuning"),
        )
        for name, method in pairs
    ]
    found = {pair: t for pair, t in zip(pairs, tuned, strict=True) if "error" not in t}
    keys = [(*pair, seed, kind) for pair in found for seed in seeds for kind in ("end", "early")]
    weights = {(name, method, seed, kind): found[name, method][kind] for name, method, seed, kind in keys}
    runs = list(
        dict.fromkeys((name, method, seed, weights[name, method, seed, kind]) for name, method, seed, kind in keys)
    )
    results = yield [
        _fit(name, method, seed, limit, w, w * (method in SPECTRAHEDRON)) for name, method, seed, w in runs
    ]
    by_run = dict(zip(runs, results, strict=True))
    fits = {key: by_run[*key[:3], weights[key]] for key in keys}
    ours = {(n, s): r for (n, m, s, kind), r in fits.items() if (m, kind) == ("rslm_tr", "end") and "error" not in r}
    same = [(name, method, seed) for name, seed in ours for method in SAME_PROBLEM]
    results = yield [
        _fit(name, method, seed, limit, C if method in SPECTRAHEDRON else ours[name, seed]["trace norm"] / C, C)
        for name, method, seed in same
        for C in (found[name, "rslm_tr"]["end"],)
    ]
    return section(names, found, fits, dict(zip(same, results, strict=True)))


def _fit(name: str, method: str, seed: int, limit: float, weight: float, C: float) -> Cell:
    given = {"name": name, "method": method, "seed": seed, "limit": limit, "weight": weight, "C": C}
    return Cell(f"{name}, {method}: split {seed}, weight {weight:.3g}", f"{__name__}:fit", given, _of(method))


def _of(method: str) -> tuple[str, ...]:
    return (__name__, "paper.observed", "paper.record", "paper.ratings", "paper.gap", *sources(method))


def tune(name: str, method: str, limit: float) -> Result:
    """Weights, from held-out entries of the training part of the first split."""
    module = importlib.import_module(f"paper.methods.completion.{method}")
    inside, held = ratings.held_out(ratings.parts(name, 0)[0])
    data = ratings.entries(name, inside)

    def errors_of(weight: float) -> list[float]:
        return [p["error"] for p in followed(name, module, data, held, weight, limit).points]

    return choose(errors_of, module.GRID, () if name == ratings.GENERATED else BETWEEN)


def fit(name: str, method: str, seed: int, limit: float, weight: float, C: float) -> Result:
    """One split: errors at the end and the least; objectives at C unless it is 0; times; the gap."""
    module = importlib.import_module(f"paper.methods.completion.{method}")
    train, test = ratings.parts(name, seed)
    data = ratings.entries(name, train)
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
    rows, cols, values, _ = ratings.loaded(name)
    i, t, y = rows[at], cols[at], values[at]

    def score(left: Floats, right: Floats) -> dict[str, float]:
        error = predict_pairs(i, t, left, right, 1) - y
        found = {"error": float(np.sqrt(np.mean(error**2))), "objective": 0.0}
        if C:
            rest = data.y - data.at(left, right)
            found["objective"] = C * float(rest @ rest) + 0.5 * nuclear_norm(left, right) ** 2
        return found

    return Record(score, limit).run(lambda record: module.fit(data, RANK, weight, record))
