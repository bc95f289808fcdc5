"""Series: the paper's three sets of impulse responses, at ranks 5, 10 and 20.

    python benchmarks/hankel.py paper       # D1, D2, D3 beside SSA, Cadzow, HTLS and SLRA
    python benchmarks/hankel.py separated   # the same with poles that are all above the noise, and the order found
    python benchmarks/hankel.py memory      # of one fit of D3

All methods see the same series, and none the truth. HankelModel has its default settings but for the rank, up to which
it chooses the order; the others use the rank as it is. SLRA, the maximum of the likelihood, is started from HTLS with
the window of the set, and once more with a short one. Many poles of the random systems are below the noise, and to
leave them out is most of the difference. benchmarks/series has the other studies of series.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from common import forget_peak, peak_memory, report
from hankel_baselines import Array, cadzow, cramer_rao, htls, random_system, separated_system, slra, ssa
from rslm import HankelModel

NOISE = 0.05
SETS = {"D1": (5, 100, 100, 20), "D2": (10, 100, 1000, 10), "D3": (20, 1000, 10000, 3)}  # order, d, T, systems
RANKS = (5, 10, 20)


def hankel_model(y: Array, _window: int, rank: int) -> Array:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no order up to")
        return np.asarray(HankelModel(rank).fit(y).signal_)


METHODS: dict[str, Callable[[Array, int, int], Array]] = {
    "HankelModel": hankel_model,
    "SLRA": slra,
    "SLRA, short start": lambda y, _, rank: slra(y, 3 * rank, rank),
    "HTLS": htls,
    "Cadzow": cadzow,
    "SSA": ssa,
}


def series(order: int, n: int, seed: int, make: Callable[..., Array] = random_system) -> tuple[Array, Array]:
    """The truth and what is seen of it."""
    rng = np.random.default_rng(seed)
    truth = make(order, n, rng)
    return truth, truth + NOISE * rng.standard_normal(n)


def distance(signal: Array, truth: Array) -> float:
    return float(np.sqrt(np.mean((signal - truth) ** 2)))


def compare(name: str, ranks: tuple[int, ...], make: Callable[..., Array]) -> list[dict[str, Any]]:
    order, d, T, systems = SETS[name]
    n, rows = d + T - 1, []
    for rank in ranks:
        for method, f in METHODS.items():
            errors, seconds = [], []
            for seed in range(systems):
                truth, y = series(order, n, seed, make)
                began = time.process_time()
                signal = f(y, d, rank)
                seconds.append(time.process_time() - began)
                errors.append(distance(signal, truth))
            mean = float(np.mean(errors))
            row = {"set": name, "rank": rank, "method": method, "RMSE": mean, "spread": float(np.std(errors))}
            rows.append(row | {"/ Cramér–Rao": mean / cramer_rao(NOISE, order, n), "CPU s": float(np.mean(seconds))})
            print(rows[-1], flush=True)
    return rows


def paper() -> None:
    rows = [row for name in SETS for row in compare(name, RANKS, random_system)]
    report("hankel-paper", rows, systems={name: s[3] for name, s in SETS.items()})


def separated() -> None:
    rows, found = [], {}
    for name in ("D1", "D2"):
        order, d, T, systems = SETS[name]
        rows += compare(name, (order,), separated_system)
        orders = [HankelModel().fit(series(order, d + T - 1, s, separated_system)[1]) for s in range(systems)]
        found[name] = f"{sum(m.rank_ == order for m in orders)} of {systems}"
    report("hankel-separated", rows, **{"order right with rank='auto'": found})


def memory_of_fit() -> float:
    order, d, T, _ = SETS["D3"]
    _, y = series(order, d + T - 1, 0)
    forget_peak()
    before = peak_memory()
    hankel_model(y, d, order)
    return (peak_memory() - before) / 1e6


def memory() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
        report("hankel-memory", [{"set": "D3", "MB beyond the imports": fresh.submit(memory_of_fit).result()}])


if __name__ == "__main__":
    studies = {"paper": paper, "separated": separated, "memory": memory}
    for study in sys.argv[1:] or list(studies):
        studies[study]()
