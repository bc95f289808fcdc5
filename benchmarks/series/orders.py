"""The order that is found in white noise and in noise with memory.

    python benchmarks/series/orders.py

A series is the sum of two oscillations with amplitudes 1 and 0.6, of order 4, and noise of standard deviation 0.3;
half of the series have undamped oscillations, and half have oscillations that decay to between 0.15 and 0.6 of their
amplitude. HankelModel has its default settings.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import report
from hankel_baselines import Array
from rslm import HankelModel

ORDER, SERIES, NOISE = 4, 30, 0.3
SAMPLES = (150, 300, 1000)
MEMORIES = (0.0, 0.5, 0.7, 0.9)
BURN = 500
SEED = 61_000


def series(n: int, phi: float, seed: int) -> Array:
    rng = np.random.default_rng([SEED, n, int(10 * phi), seed])
    t = np.arange(n)
    angles = np.array([rng.uniform(0.1, 0.8), rng.uniform(1.0, 2.6)])
    decays = rng.uniform(0.5, 2.0, 2) / n if seed % 2 else np.zeros(2)
    waves = np.array([1.0, 0.6]) * np.exp(-np.outer(t, decays)) * np.cos(np.outer(t, angles) + rng.uniform(0, 6, 2))
    noise = lfilter([np.sqrt(1 - phi**2)], [1.0, -phi], rng.standard_normal(n + BURN))[BURN:]
    return np.asarray(waves.sum(axis=1) + NOISE * noise)


if __name__ == "__main__":
    rows = []
    for phi in MEMORIES:
        for n in SAMPLES:
            orders, largest, seconds = [], 0.0, 0.0
            for seed in range(SERIES):
                y = series(n, phi, seed)
                began = time.process_time()
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message="no order up to")
                    model = HankelModel().fit(y)
                seconds += (time.process_time() - began) / SERIES
                orders.append(model.rank_)
                largest = max(largest, float(np.abs(model.poles_).max(initial=0.0)))
            wrong = sorted(order for order in orders if order != ORDER)
            row = {"noise": f"AR(1), {phi:g}" if phi else "white", "samples": n}
            row |= {"orders found": f"{SERIES - len(wrong)} of {SERIES}", "other orders": str(wrong)[1:-1]}
            rows.append(row | {"largest modulus": round(largest, 6), "CPU s": seconds})
            print(rows[-1], flush=True)
    report("series-orders", rows, series=SERIES)
