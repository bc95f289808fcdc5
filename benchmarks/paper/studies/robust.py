"""Robust completion: test errors of RMC and of rslm with two robust losses, and the curves of the paper's figure.

Settings are chosen on 5 % of the training part of the first split. Every method is run on the ratings as they are,
which is the paper's problem, and on the ratings less their mean in the training part, because both pull W to zero.
"""

from __future__ import annotations

import importlib

import numpy as np

from paper import ratings
from paper.cells import Cell, Plan, Result
from paper.observed import Entries
from paper.record import Record
from paper.studies.robust_page import section
from paper.tuning import choose
from rslm.kernels import predict_pairs
from rslm.runtime.types import Floats, Indices64

RANK, SEEDS = 10, 5
METHODS = {"rmc": "rmc", "svr": "rslm_robust", "absolute": "rslm_robust"}
CENTRED = (False, True)
LIMIT, TUNING_LIMIT, QUICK_LIMIT = 30.0, 12.0, 2.0  # seconds of a fit
BETWEEN = (0.4, 2.5)  # relative to the best decade of C or λ
EPSILONS, FIRST_EPSILON = (0.25, 1.0), 0.5  # in units of ratings
WRONG, FACTOR = 0.05, 10.0  # part of the training entries that are multiplied, and by what
POINTS = 60  # of a curve


def study(quick: bool) -> Plan:
    name = ratings.GENERATED if quick else "ML-1M"
    if ratings.load(name) is None:
        return section(name, {}, {}, {})
    runs = [(method, centred) for method in METHODS for centred in CENTRED]
    tuned = yield [
        Cell(
            f"{name}, {method}{', less the mean' if centred else ''}: settings",
            f"{__name__}:tune",
            {"name": name, "method": method, "centred": centred, "limit": QUICK_LIMIT if quick else TUNING_LIMIT},
            (*_of(method), "paper.tuning"),
        )
        for method, centred in runs
    ]
    found = {run: t for run, t in zip(runs, tuned, strict=True) if "error" not in t}
    splits = [(run, seed, False) for run in found for seed in range(2 if quick else SEEDS)]
    splits += [((method, False), 0, True) for method in METHODS if (method, False) in found]
    results = yield [
        Cell(
            f"{name}, {method}{', less the mean' if centred else ''}: split {seed}{', wrong entries' if wrong else ''}",
            f"{__name__}:fit",
            {"name": name, "method": method, "centred": centred, "seed": seed, "wrong": wrong}
            | {"limit": QUICK_LIMIT if quick else LIMIT}
            | {key: found[method, centred][key] for key in ("weight", "epsilon")},
            _of(method),
        )
        for (method, centred), seed, wrong in splits
    ]
    pairs = list(zip(splits, results, strict=True))
    fits = {run: [r for (s, _, wrong), r in pairs if s == run and not wrong and "error" not in r] for run in found}
    spoilt = {run: r for (run, _, wrong), r in pairs if wrong and "error" not in r}
    return section(name, found, fits, spoilt)


def _of(method: str) -> tuple[str, ...]:
    package = ("rslm.kernels", "rslm.linalg") if method == "rmc" else ("rslm",)
    common = (__name__, "paper.observed", "paper.record", "paper.ratings", *package)
    return (*common, f"paper.methods.robust.{METHODS[method]}")


def tune(name: str, method: str, centred: bool, limit: float) -> Result:
    """The settings with the least RMSE at the end on held-out training entries: C or λ, then ε."""
    inside, held = ratings.held_out(ratings.parts(name, 0)[0])
    data, offset = entries(name, inside, centred)
    small = name == ratings.GENERATED

    def errors_of(weight: float, epsilon: float) -> list[float]:
        return [p["rmse"] for p in followed(name, method, data, offset, held, weight, epsilon, limit).points]

    first = FIRST_EPSILON if method == "svr" else 0.0
    grid = importlib.import_module(f"paper.methods.robust.{METHODS[method]}").GRID
    found = choose(lambda weight: errors_of(weight, first), grid, () if small else BETWEEN)
    weight = found["end"]
    errors = {first: next(t["end"] for t in found["tried"] if t["weight"] == weight)}
    for epsilon in EPSILONS if method == "svr" and not small else ():
        errors[epsilon] = errors_of(weight, epsilon)[-1]
    return {"weight": weight, "epsilon": min(errors, key=lambda e: errors[e]), "tried": found["tried"]}


def fit(
    name: str,
    method: str,
    centred: bool,
    seed: int,
    wrong: bool,
    limit: float,
    weight: float,
    epsilon: float,
) -> Result:
    """One split: errors at the end, time and the curve."""
    train, test = ratings.parts(name, seed)
    data, offset = entries(name, train, centred)
    if wrong:
        hit = np.random.default_rng(seed).random(len(data.y)) < WRONG
        data = Entries(data.columns, np.where(hit, FACTOR * data.y, data.y))
    record = followed(name, method, data, offset, test, weight, epsilon, limit)
    seconds, rmse, mae = (np.array([p[key] for p in record.points]) for key in ("seconds", "rmse", "mae"))
    keep = np.unique(np.linspace(0, len(rmse) - 1, POINTS).astype(int))
    return {
        "rmse": float(rmse[-1]),
        "mae": float(mae[-1]),
        "seconds": float(seconds[-1]),
        "ended": record.ended,
        "curve": [seconds[keep].tolist(), rmse[keep].tolist()],
    }


def followed(
    name: str, method: str, data: Entries, offset: float, at: Indices64, weight: float, epsilon: float, limit: float
) -> Record:
    """Run a method and score every iterate at the entries `at`; `offset` is what was subtracted from the ratings."""
    rows, cols, values, _ = ratings.loaded(name)
    i, t, y = rows[at], cols[at], values[at] - offset
    module = importlib.import_module(f"paper.methods.robust.{METHODS[method]}")
    more = {"epsilon": epsilon} if METHODS[method] == "rslm_robust" else {}

    def score(left: Floats, right: Floats) -> dict[str, float]:
        error = predict_pairs(i, t, left, right, 1) - y
        return {"rmse": float(np.sqrt(np.mean(error**2))), "mae": float(np.mean(np.abs(error)))}

    return Record(score, limit).run(lambda record: module.fit(data, RANK, weight, record, **more))


def entries(name: str, at: Indices64, centred: bool) -> tuple[Entries, float]:
    offset = float(ratings.loaded(name)[2][at].mean()) if centred else 0.0
    return ratings.entries(name, at, offset), offset
