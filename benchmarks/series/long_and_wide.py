"""Long series, and channels with noise of different sizes.

    python benchmarks/series/long_and_wide.py long       # 100,000 samples, complete and with 20 % missing, beside SLRA
    python benchmarks/series/long_and_wide.py channels   # 2, 5 and 20 channels with noise from 0.05 to 2

HankelModel has its default settings: it finds the order, the noise and its size. SLRA, which is maximum likelihood, is
given the true order, and only complete series. The oracle of the channels is given the order, the true poles as a start
and the sizes of the noise; errors are compared channel by channel.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import forget_peak, peak_memory, report
from hankel_baselines import slra
from rslm import HankelModel
from rslm.estimators.series.likelihood import channels_of
from rslm.estimators.series.modes import modes_of
from rslm.estimators.series.variable_projection import refined

Array = NDArray[Any]

SAMPLES, MISSING = 100_000, 0.2
ORDERS, NOISES = (5, 8, 10), (0.2, 1.0, 3.0)
SERIES = 3
WINDOW = 300  # of SLRA's start
CHANNELS, WIDE_SAMPLES, WIDE_ORDER, WIDE_SERIES = (2, 5, 20), 300, 4, 20
LEAST, MOST = 0.05, 2.0  # noise of the first and the last channel
SEED = 77_000


def poles(order: int, n: int, rng: np.random.Generator) -> Array:
    """Pairs with angles apart from each other, and a decay if the order is odd; decays are 2 … 20 in n samples."""
    pairs = order // 2
    angles = np.pi * (np.arange(pairs) + rng.uniform(0.75, 1.25, pairs)) / (pairs + 1)
    decays = rng.uniform(2.0, 20.0, pairs) / n
    z = np.exp(-decays + 1j * angles)
    return np.concatenate([z, z.conj(), np.exp(-rng.uniform(2.0, 20.0, order % 2) / n)])


def amplitudes(order: int, channels: int, rng: np.random.Generator) -> Array:
    """Of the poles: of size 0.5 … 1 for each mode, and conjugate for conjugate poles."""
    pairs = order // 2
    sizes = 0.5 * rng.uniform(0.5, 1.0, (pairs, channels)) * np.exp(2j * np.pi * rng.random((pairs, channels)))
    return np.concatenate([sizes, sizes.conj(), rng.uniform(0.5, 1.0, (order % 2, channels))])


def drawn(order: int, n: int, channels: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Poles and the signal, (n, channels)."""
    z = poles(order, n, rng)
    return z, (z ** np.arange(n)[:, None] @ amplitudes(order, channels, rng)).real


def bound(z: Array, signal: Array, seen: Array, noise: float) -> float:
    """The Cramér–Rao bound of the RMSE of one channel's signal, from all of its 2 `order` parameters."""
    t = np.arange(len(signal))[:, None]
    B = z**t
    a = np.linalg.lstsq(B, signal.astype(complex), rcond=None)[0]
    D = np.hstack([B, t / len(t) * B * a])  # by the amplitudes and by the logarithms of the poles
    D = D / np.linalg.norm(D, axis=0)
    spread = np.linalg.solve((D[seen].conj().T @ D[seen]), D.conj().T @ D)
    return float(noise * np.sqrt(np.trace(spread).real / len(t)))


def distance(signal: Array, truth: Array) -> float:
    return float(np.sqrt(np.mean((signal - truth) ** 2)))


# ---- long series -----------------------------------------------------------------------------------------------------


def memory_of_fit(y: Array) -> float:
    forget_peak()
    before = peak_memory()
    HankelModel().fit(y)
    return (peak_memory() - before) / 1e6


def long_series(order: int, noise: float, seed: int, share: float) -> tuple[Array, Array, Array, Array]:
    """Poles, the truth, what is seen of it, and where."""
    rng = np.random.default_rng(SEED + 100 * order + seed)
    z, truth = drawn(order, SAMPLES, 1, rng)
    y = truth[:, 0] + noise * rng.standard_normal(SAMPLES)
    seen = rng.random(SAMPLES) >= share
    return z, truth[:, 0], np.where(seen, y, np.nan), seen


def long() -> None:
    rows = []
    for share in (0.0, MISSING):
        for order in ORDERS:
            for noise in NOISES:
                found: dict[str, list[float]] = {"ours": [], "SLRA": [], "bound": [], "s": [], "order": []}
                for seed in range(SERIES):
                    z, truth, y, seen = long_series(order, noise, seed, share)
                    began = time.process_time()
                    model = HankelModel().fit(y)
                    found["s"].append(time.process_time() - began)
                    found["ours"].append(distance(model.signal_, truth))
                    found["order"].append(model.rank_ == order)
                    found["bound"].append(bound(z, truth, seen, noise))
                    if not share:
                        found["SLRA"].append(distance(slra(y, WINDOW, order), truth))
                mean = {name: float(np.mean(values)) for name, values in found.items() if values}
                row: dict[str, Any] = {"missing": f"{share:.0%}", "order": order, "noise": noise}
                row |= {"orders found": f"{sum(found['order']):.0f} of {SERIES}", "RMSE": mean["ours"]}
                row |= {"/ Cramér–Rao": mean["ours"] / mean["bound"], "CPU s": mean["s"], "most CPU s": max(found["s"])}
                row |= {"/ SLRA": mean["ours"] / mean["SLRA"]} if "SLRA" in mean else {}
                rows.append(row)
                print(rows[-1], flush=True)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
        peak = {
            f"MB beyond the imports, {share:.0%} missing": fresh.submit(
                memory_of_fit, long_series(10, 1.0, 0, share)[2]
            ).result()
            for share in (0.0, MISSING)
        }
    report("series-long", rows, series=SERIES, **peak)


# ---- channels --------------------------------------------------------------------------------------------------------


def channels() -> None:
    rows = []
    for count in CHANNELS:
        noises = np.geomspace(LEAST, MOST, count)
        ours, oracle, seconds, right = [], [], 0.0, 0
        for seed in range(WIDE_SERIES):
            rng = np.random.default_rng(SEED + 10_000 * count + seed)
            z, truth = drawn(WIDE_ORDER, WIDE_SAMPLES, count, rng)
            y = truth + noises * rng.standard_normal(truth.shape)
            began = time.process_time()
            model = HankelModel().fit(y)
            seconds += (time.process_time() - began) / WIDE_SERIES
            right += model.rank_ == WIDE_ORDER
            best = refined(
                channels_of(y.T, sizes=noises), modes_of(z, WIDE_SAMPLES, False), tol=1e-10, most_steps=300
            ).signal.T
            ours.append(np.mean((model.signal_ - truth) ** 2, axis=0))
            oracle.append(np.mean((best - truth) ** 2, axis=0))
        ratios = np.sqrt(np.mean(ours, axis=0) / np.mean(oracle, axis=0))
        row = {"channels": count, "orders found": f"{right} of {WIDE_SERIES}", "best channel": ratios[0]}
        row |= {"worst channel": ratios[-1], "largest ratio": ratios.max(), "CPU s": seconds}
        rows.append(row)
        print(rows[-1], flush=True)
    report("series-channels", rows, series=WIDE_SERIES, **{"errors": "relative to the oracle's"})


if __name__ == "__main__":
    studies = {"long": long, "channels": channels}
    for study in sys.argv[1:] or list(studies):
        studies[study]()
