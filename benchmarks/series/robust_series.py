"""Spikes and missing samples: the error relative to that of the complete series without spikes.

    python benchmarks/series/robust_series.py spikes     # in 5 % of the samples, of 10 times the signal
    python benchmarks/series/robust_series.py missing    # 30 % of the samples

Series are impulse responses of order 5 with 199 samples and noise 0.05 (the set D1 of `hankel.py`, with other seeds).
All settings of HankelModel are the defaults but for the loss: the order is found too. "spikes known" has the true
spikes as missing samples and the square loss.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import report
from hankel_baselines import Array, random_system, separated_system
from rslm import HankelModel

NOISE, ORDER, SAMPLES, SYSTEMS = 0.05, 5, 199, 40
SEED = 53_000
SYSTEMS_OF: dict[str, Callable[..., Array]] = {"separated": separated_system, "random": random_system}
SIZES: dict[str, Callable[[Array], float]] = {
    "RMS": lambda signal: float(np.sqrt(np.mean(signal**2))),
    "largest": lambda signal: float(np.abs(signal).max()),
}


def series(seed: int, make: Callable[..., Array]) -> tuple[Array, Array]:
    """The truth and what is seen of it."""
    rng = np.random.default_rng(SEED + seed)
    truth = make(ORDER, SAMPLES, rng)
    return truth, truth + NOISE * rng.standard_normal(SAMPLES)


def spiked(y: Array, size: float, seed: int) -> tuple[Array, Array]:
    """With spikes in 5 % of the samples, and with these samples missing."""
    rng = np.random.default_rng(SEED + 1000 + seed)
    at = rng.choice(len(y), len(y) // 20, replace=False)
    wrong, without = y.copy(), y.copy()
    wrong[at] += 10 * size * rng.choice([-1, 1], len(at))
    without[at] = np.nan
    return wrong, without


def fitted(y: Array, loss: str = "square") -> tuple[HankelModel, float]:
    """The model, and its CPU seconds."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no order up to")
        model = HankelModel(loss=loss).fit(y)
    return model, time.process_time() - began


def distance(signal: Any, truth: Array) -> float:
    return float(np.sqrt(np.mean((signal - truth) ** 2)))


def compared(errors: dict[str, list[float]], to: str) -> list[dict[str, Any]]:
    rows = []
    for name, found in errors.items():
        ratios = np.divide(found, errors[to])
        mean = float(np.mean(found))
        row = {"fit": name, "RMSE": mean, "ratio": mean / float(np.mean(errors[to]))}
        rows.append(row | {"median ratio": float(np.median(ratios)), "worst ratio": float(ratios.max())})
    return rows


def spikes() -> None:
    rows = []
    for systems, make in SYSTEMS_OF.items():
        for of, size in SIZES.items():
            errors, seconds = defaultdict(list), defaultdict(list)
            for seed in range(SYSTEMS):
                truth, y = series(seed, make)
                wrong, without = spiked(y, size(truth), seed)
                fits = {"no spikes": (y, "square"), "no spikes, huber": (y, "huber")}
                fits |= {"spikes known": (without, "square")}
                fits |= {loss: (wrong, loss) for loss in ("huber", "absolute", "square")}
                for name, (samples, loss) in fits.items():
                    model, took = fitted(samples, loss)
                    errors[name].append(distance(model.signal_, truth))
                    seconds[name].append(took)
            for row in compared(errors, "no spikes"):
                cpu = {"CPU s": float(np.mean(seconds[row["fit"]]))}
                rows.append({"systems": systems, "spikes": f"10 × {of}"} | row | cpu)
                print(rows[-1], flush=True)
    report("series-spikes", rows, systems=SYSTEMS)


def missing() -> None:
    """Most of the random systems decay within a few samples; nothing tells of the first ones if they are lost."""
    rows = []
    for systems, make in SYSTEMS_OF.items():
        errors, seconds = defaultdict(list), defaultdict(list)
        for seed in range(SYSTEMS):
            truth, y = series(seed, make)
            gone = np.random.default_rng(SEED + 2000 + seed).random(SAMPLES) < 0.3
            for name, samples in {"complete": y, "30 % missing": np.where(gone, np.nan, y)}.items():
                model, took = fitted(samples)
                errors[name].append(distance(model.signal_, truth))
                seconds[name].append(took)
        for row in compared(errors, "complete"):
            rows.append({"systems": systems} | row | {"CPU s": float(np.mean(seconds[row["fit"]]))})
            print(rows[-1], flush=True)
    report("series-missing", rows, systems=SYSTEMS)


if __name__ == "__main__":
    studies = {"spikes": spikes, "missing": missing}
    for study in sys.argv[1:] or list(studies):
        studies[study]()
