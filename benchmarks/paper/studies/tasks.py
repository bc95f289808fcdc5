"""Multi-task feature learning: test error and duality gap against the rank, on Parkinsons and School."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from common import SHARED
from multitask import Array, Rows, nmse, parkinsons, predict, school, split
from paper.cells import Cell, Plan, Result
from paper.methods.tasks import mtfl, rslm_tasks
from rslm.runtime.types import Floats

FILES = {"Parkinsons": "data/parkinsons/parkinsons_updrs.data", "School": "data/school/school.mat"}
METHODS = {"ours": ("paper.methods.tasks.rslm_tasks", "rslm"), "others": ("paper.methods.tasks.mtfl",)}
SPLITS, FOLDS = 10, 3
LOW = (1, 2, 3, 5)  # ranks that C is chosen with
ROUGH = mtfl.WARM[::4]  # to choose a weight
Models = list[tuple[Array, Array]]  # coefficients and intercepts


def study(quick: bool) -> Plan:
    from paper.studies.tasks_page import page  # a cell does not draw

    there = [name for name, file in FILES.items() if (SHARED / file).exists()]
    cells = [
        Cell(
            f"tasks: {name}, split {seed}, {method}",
            f"paper.studies.tasks:{method}",
            {"data": name, "seed": seed, "every": 3 if quick else 1},
            ("paper.studies.tasks", "multitask", *sources),
        )
        for name in there
        for seed in range(2 if quick else SPLITS)
        for method, sources in METHODS.items()
    ]
    results = yield cells
    return page(there, [(str(c.arguments["data"]), r) for c, r in zip(cells, results, strict=True)])


def ours(data: str, seed: int, every: int) -> Result:
    """Errors and gaps of RSLM at every rank, with the C that is best on held-out parts of the training rows."""
    train, test = parts(data, seed)
    settings = [(C, rank) for C in rslm_tasks.TRADES[::every] for rank in LOW]

    def models(rows: Rows) -> Models:
        return [(f.W, f.b) for f in (rslm_tasks.fit(*rows, rank, C) for C, rank in settings)]

    C, rank = settings[best_of(models, train)]
    ranks = sorted({*LOW, *range(1, train[0].shape[1], every), train[0].shape[1]})
    fits = [rslm_tasks.fit(*train, rank, C) for rank in ranks]
    errors = [nmse(predict(f.W, f.b, test), test[1]) for f in fits]
    return {"method": rslm_tasks.NAME, "settings": [C] * len(ranks), "chosen": ranks.index(rank), "ranks": ranks} | {
        "errors": errors,
        "gaps": [f.gap for f in fits],
    }


def others(data: str, seed: int, every: int) -> Result:
    """Errors, ranks and gaps of MTFL for every weight, and which is best on held-out parts of the training rows."""
    train, test = parts(data, seed)
    weights, T = mtfl.WEIGHTS[::every], int(train[2].max()) + 1

    def models(rows: Rows, floors: Floats = ROUGH) -> Models:
        moments = mtfl.Moments.of(*rows, T)
        return [(step.W, moments.intercepts(step.W)) for step in mtfl.path(moments, weights, floors)]

    chosen, found, moments = best_of(models, train), models(train, mtfl.WARM), mtfl.Moments.of(*train, T)
    bounds = [moments.bounds(W, weight) for (W, _), weight in zip(found, weights, strict=True)]
    return {"method": mtfl.NAME, "settings": weights, "chosen": chosen, "ranks": [mtfl.rank(W) for W, _ in found]} | {
        "errors": [nmse(predict(W, b, test), test[1]) for W, b in found],
        "gaps": [(primal - dual) / dual for primal, dual in bounds],
    }


def parts(data: str, seed: int) -> tuple[Rows, Rows]:
    """Rows to learn from and rows to test with. Features of Parkinsons are scaled by those to learn from."""
    if data == "School":
        return split(school(), seed)
    train, test = split(parkinsons(0), seed)
    mean, std = train[0].mean(axis=0), train[0].std(axis=0)
    return ((train[0] - mean) / std, *train[1:]), ((test[0] - mean) / std, *test[1:])


def best_of(models: Callable[[Rows], Models], train: Rows) -> int:
    """The setting with the least squared error in cross-validation."""
    fold = np.random.default_rng(0).permutation(len(train[1])) % FOLDS
    total: Sequence[float] | Floats = np.zeros(())
    for k in range(FOLDS):
        rest: Rows = (train[0][fold != k], train[1][fold != k], train[2][fold != k])
        held: Rows = (train[0][fold == k], train[1][fold == k], train[2][fold == k])
        total = total + np.array([np.sum((predict(W, b, held) - held[1]) ** 2) for W, b in models(rest)])
    return int(np.argmin(total))
