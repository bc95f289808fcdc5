"""Hankel matrix learning: impulse responses of random systems in noise, at ranks 5, 10 and 20."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hankel_baselines import random_system
from paper.cells import Cell, Plan
from paper.methods.hankel import dadm, gcg, rslm_hankel, slra
from paper.studies.hankel_page import section
from rslm.runtime.types import Floats

NOISE = 0.05
RANKS = (5, 10, 20)
SETS = {"D1": (5, 100, 100, 10), "D2": (10, 100, 1000, 5), "D3": (20, 1000, 10000, 2)}  # order, d, T, systems
SHOWN = 100  # samples of the example

Fit = Callable[[Floats, int, int], Floats]
Path = Callable[[Floats, int, tuple[int, ...]], dict[int, Floats]]


def likelihood(y: Floats, window: int, rank: int) -> Floats:
    return np.asarray(rslm_hankel.maximum_likelihood(y, rank).signal_)


FITS: dict[str, Fit] = {
    "likelihood": likelihood,
    "rslm": rslm_hankel.fit,
    "slra": slra.fit,
    "slra short": slra.fit_short,
}
PATHS: dict[str, Path] = {"dadm": dadm.path, "gcg": gcg.path}
FOLDER = "paper.methods.hankel."
SOURCES = {
    "likelihood": (FOLDER + "rslm_hankel", "rslm"),
    "rslm": (FOLDER + "rslm_hankel", FOLDER + "products", "rslm"),
    "slra": (FOLDER + "slra",),
    "slra short": (FOLDER + "slra",),
    "dadm": (FOLDER + "dadm", FOLDER + "products"),
    "gcg": (FOLDER + "gcg", FOLDER + "products"),
}


def series(name: str, seed: int) -> tuple[Floats, Floats]:
    """The truth and what is seen of it."""
    order, d, T, _ = SETS[name]
    rng = np.random.default_rng(seed)
    truth = np.asarray(random_system(order, d + T - 1, rng))
    return truth, truth + NOISE * rng.standard_normal(len(truth))


def fit(name: str, seeds: list[int], method: str) -> dict[str, Any]:
    """One method on some systems: for each, RMSE and seconds in the order of RANKS; and the example, if it is there."""
    window, rmse, seconds, example = SETS[name][1], [], [], {}
    for seed in seeds:
        truth, y = series(name, seed)
        found, spent = _all_ranks(method, y, window)
        rmse.append([float(np.sqrt(np.mean((found[rank] - truth) ** 2))) for rank in RANKS])
        seconds.append(spent)
        if seed == 0:
            known = {"truth": truth, "seen": y, "signal": found[RANKS[1]]}
            example = {key: np.round(values[:SHOWN], 4).tolist() for key, values in known.items()}
    return {"rmse": rmse, "seconds": seconds} | example


def _all_ranks(method: str, y: Floats, window: int) -> tuple[dict[int, Floats], list[float]]:
    """The series of every rank, and CPU seconds for each: of a path, the mean."""
    if method in PATHS:
        began = time.process_time()
        found = PATHS[method](y, window, RANKS)
        return found, [(time.process_time() - began) / len(RANKS)] * len(RANKS)
    found, seconds = {}, []
    for rank in RANKS:
        began = time.process_time()
        found[rank] = FITS[method](y, window, rank)
        seconds.append(time.process_time() - began)
    return found, seconds


def study(quick: bool) -> Plan:
    runs = {"D1": 2, "D2": 1} if quick else {name: sizes[3] for name, sizes in SETS.items()}
    # To start a process takes longer than a fit of D1 or D2, so all their systems are one cell.
    groups = {name: [[s] for s in range(count)] if name == "D3" else [[*range(count)]] for name, count in runs.items()}
    keys = [(name, method, tuple(seeds)) for name in runs for method in SOURCES for seeds in groups[name]]
    shared = ("paper.studies.hankel", "hankel_baselines")
    results = yield [
        Cell(
            f"{name}, {method}, systems {seeds[0]} to {seeds[-1]}",
            "paper.studies.hankel:fit",
            {"name": name, "seeds": [*seeds], "method": method},
            shared + SOURCES[method],
        )
        for name, method, seeds in keys
    ]
    return section(dict(zip(keys, results, strict=True)), SETS, RANKS)
