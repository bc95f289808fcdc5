"""Series: the paper's three sets of impulse responses, missing samples, orders, and forecasts of two real series.

    python benchmarks/hankel.py paper       # D1, D2, D3 at ranks 5, 10, 20, beside SSA, Cadzow, HTLS and SLRA
    python benchmarks/hankel.py separated   # the same with poles that are all above the noise, and the order found
    python benchmarks/hankel.py missing     # D1 with 30 % of the samples missing
    python benchmarks/hankel.py robust      # D1 with spikes in 5 % of the samples, with three losses
    python benchmarks/hankel.py forecast    # air passengers and carbon dioxide, beside other forecasts
    python benchmarks/hankel.py memory      # of one fit of D3

All methods see the same series, and none the truth. HankelModel has its default settings but for the rank, up to which
it chooses the order; the others use the rank as it is. SLRA, the maximum of the likelihood, is started from HTLS with
the window of the set, and once more with a short one. Many poles of the random systems are below the noise, and to
leave them out is most of the difference: "SLRA, order chosen" has HankelModel's criterion on top of SLRA.
"""

from __future__ import annotations

import csv
import multiprocessing
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from common import SHARED, forget_peak, needed, peak_memory, report
from hankel_baselines import Array, cadzow, cramer_rao, htls, random_system, separated_system, slra, ssa
from rslm import HankelModel
from rslm.estimators.series.orders import criterion

NOISE = 0.05
SETS = {"D1": (5, 100, 100, 20), "D2": (10, 100, 1000, 10), "D3": (20, 1000, 10000, 5)}  # order, d, T, systems
RANKS = (5, 10, 20)
SIZES: dict[str, Callable[[Array], float]] = {
    "RMS": lambda signal: float(np.sqrt(np.mean(signal**2))),
    "largest": lambda signal: float(np.abs(signal).max()),
}
PATIENCE = 4  # orders without a better one after which SLRA looks no further


def hankel_model(y: Array, _window: int, rank: int) -> Array:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no order up to")
        return np.asarray(HankelModel(rank).fit(y).signal_)


def slra_and_order(y: Array, _window: int, rank: int) -> Array:
    """SLRA with HankelModel's criterion on top: the order up to the rank with the least of it, from both starts."""
    n, best, least, since = len(y), np.zeros_like(y), criterion(float(y @ y), 0, len(y), 1, float(y @ y)), 0
    for order in range(1, rank + 1):
        fits = [slra(y, window, order) for window in (max(3 * order, 8), min(100, (n + 1) // 2))]
        squares, signal = min(((float(np.sum((y - f) ** 2)), f) for f in fits), key=lambda pair: pair[0])
        value = criterion(squares, order, n, 1, float(y @ y))
        best, least, since = (signal, value, 0) if value < least else (best, least, since + 1)
        if since > PATIENCE:
            break
    return best


METHODS: dict[str, Callable[[Array, int, int], Array]] = {
    "HankelModel": hankel_model,
    "SLRA": slra,
    "SLRA, short start": lambda y, _, rank: slra(y, 3 * rank, rank),
    "SLRA, order chosen": slra_and_order,
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
                began = time.perf_counter()
                signal = f(y, d, rank)
                seconds.append(time.perf_counter() - began)
                errors.append(distance(signal, truth))
            mean = float(np.mean(errors))
            row = {"set": name, "rank": rank, "method": method, "RMSE": mean, "spread": float(np.std(errors))}
            rows.append(row | {"/ Cramér–Rao": mean / cramer_rao(NOISE, order, n), "s": float(np.mean(seconds))})
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


def missing() -> None:
    """Most of the random systems decay within a few samples; nothing tells of the first ones if they are lost."""
    order, d, T, systems = SETS["D1"]
    rows = []
    for name, make in (("random", random_system), ("separated", separated_system)):
        complete, holes, filled = [], [], []
        for seed in range(systems):
            truth, y = series(order, d + T - 1, seed, make)
            complete.append(distance(hankel_model(y, d, order), truth))
            gone = np.random.default_rng(1000 + seed).random(len(y)) < 0.3
            y[gone] = np.nan
            signal = hankel_model(y, d, order)
            holes.append(distance(signal, truth))
            filled.append(distance(signal[gone], truth[gone]))
        row = {"systems": name, "complete": float(np.mean(complete)), "30 % missing": float(np.mean(holes))}
        row |= {"of the missing ones": float(np.mean(filled)), "ratio": float(np.mean(holes) / np.mean(complete))}
        rows.append(row | {"median ratio": float(np.median(np.divide(holes, complete)))})
    report("hankel-missing", rows, systems=systems)


def spiked(y: Array, truth: Array, size: str, seed: int) -> Array:
    """With spikes of ten times the signal, its root mean square or its largest sample, in 5 % of the samples."""
    rng = np.random.default_rng(1000 + seed)
    at = rng.choice(len(y), len(y) // 20, replace=False)
    found = y.copy()
    found[at] += 10 * SIZES[size](truth) * rng.choice([-1, 1], len(at))
    return found


def robust() -> None:
    """All settings are the defaults but for the loss: the order is found too."""
    order, d, T, systems = SETS["D1"]
    rows = []
    for name, make in (("separated", separated_system), ("random", random_system)):
        for size in SIZES:
            errors: dict[str, list[float]] = defaultdict(list)
            seconds: dict[str, list[float]] = defaultdict(list)
            for seed in range(systems):
                truth, y = series(order, d + T - 1, seed, make)
                wrong = spiked(y, truth, size, seed)
                fits = {"square, no spikes": ("square", y), "huber, no spikes": ("huber", y)}
                fits |= {loss: (loss, wrong) for loss in ("square", "huber", "absolute")}
                for label, (loss, samples) in fits.items():
                    began = time.perf_counter()
                    with warnings.catch_warnings():
                        warnings.filterwarnings("ignore", message="no order up to")
                        signal = HankelModel(loss=loss).fit(samples).signal_
                    seconds[label].append(time.perf_counter() - began)
                    errors[label].append(distance(signal, truth))
            least = errors["square, no spikes"]
            for label, found in errors.items():
                ratios, mean = np.divide(found, least), float(np.mean(found))
                row = {"systems": name, "spikes": f"10 × {size}", "loss": label, "RMSE": mean}
                row |= {"median ratio": float(np.median(ratios)), "ratio of means": mean / float(np.mean(least))}
                rows.append(row | {"worst ratio": float(ratios.max()), "s": float(np.mean(seconds[label]))})
                print(rows[-1], flush=True)
    report("hankel-robust", rows, systems=systems)


def read(name: str, column: str) -> Array:
    with needed(SHARED / "data" / "series" / name).open() as file:
        return np.array([float(row[column] or "nan") for row in csv.DictReader(file)])


def forecast() -> None:
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    rows = []
    for name, y, ahead, period in (
        ("log air passengers", np.log(read("air_passengers.csv", "y")), 24, 12),
        ("carbon dioxide", read("co2.csv", "co2"), 104, 52),
    ):
        seen, held = y[:-ahead], y[-ahead:]
        known = ~np.isnan(held)
        t = np.arange(len(seen))
        filled = np.where(np.isnan(seen), np.interp(t, t[~np.isnan(seen)], seen[~np.isnan(seen)]), seen)
        began = time.perf_counter()
        model = HankelModel().fit(seen)
        seconds = time.perf_counter() - began
        ours, (lower, upper) = model.forecast(ahead), model.predict_interval(ahead)
        inside = float(np.mean((held >= lower)[known] & (held <= upper)[known]))
        smoothing = ExponentialSmoothing(filled, trend="add", seasonal="add", seasonal_periods=period).fit()
        naive = np.resize(filled[-period:], ahead)
        row = {"series": name, "order": model.rank_, "HankelModel": distance(ours[known], held[known])}
        row |= {"inside the 90 % interval": inside, "s": seconds}
        row |= {"ExponentialSmoothing": distance(smoothing.forecast(ahead)[known], held[known])}
        rows.append(row | {"seasonal naive": distance(naive[known], held[known])})
    report("hankel-forecast", rows)


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
    studies = {
        "paper": paper,
        "separated": separated,
        "missing": missing,
        "robust": robust,
        "forecast": forecast,
        "memory": memory,
    }
    for study in sys.argv[1:] or list(studies):
        studies[study]()
