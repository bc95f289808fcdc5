"""Intervals of forecasts: how often they cover, from rolling origins.

    python benchmarks/series/forecast_intervals.py              # all series
    python benchmarks/series/forecast_intervals.py season walk  # some of them

At every origin a model is fitted to the samples before, with default settings, and forecasts those after. Coverage and
mean width are those of 90 % intervals, over all origins and horizons, and over the first and the last quarter of the
horizons; widths are in standard deviations of the samples' differences from their seasonal or last values. Two
intervals are compared: `predict_interval`, and the last period, or the last sample, ± normal quantiles of the errors
that this made one period, two periods, … after earlier samples. Real series are skipped if they are absent. "break" has
a jump in the level at sample 300, which no method can foresee: origins before it miss.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm as normal

from rslm import HankelModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import SHARED, report
from hankel_baselines import Array

COVERAGE = 0.9
SEEDS = range(200, 208)  # the method was developed with smaller ones
SAMPLES, AHEAD = 400, 40
ORIGINS = range(150, 361, 42)


def autoregressive(rng: Any, n: int, phi: float) -> Array:
    """A process with standard deviation 1, past its start."""
    steps = rng.standard_normal(n + 200) * np.sqrt(1 - phi**2)
    x = np.zeros(n + 200)
    for k in range(1, n + 200):
        x[k] = phi * x[k - 1] + steps[k]
    return x[200:]


def sinusoids(rng: Any, t: Array, decay: tuple[float, float] = (1.0, 1.0)) -> Array:
    (f, g), (a, b) = rng.uniform(0.02, 0.4, 2), rng.uniform(0, 2 * np.pi, 2)
    waves = decay[0] ** t * np.cos(2 * np.pi * f * t + a) + 0.6 * decay[1] ** t * np.cos(2 * np.pi * g * t + b)
    return np.asarray(waves)


def trend_and_season(rng: Any, t: Array) -> Array:
    a, b = rng.uniform(0, 2 * np.pi, 2)
    return np.asarray(5 + 0.01 * t + np.cos(2 * np.pi * t / 12 + a) + 0.4 * np.cos(2 * np.pi * t / 6 + b))


def some_missing(rng: Any, y: Array) -> Array:
    return np.where(rng.random(len(y)) < 0.15, np.nan, y)


def white(rng: Any, t: Array, size: float = 0.3) -> Array:
    return np.asarray(size * rng.standard_normal(len(t)))


GENERATED: dict[str, Callable[[Any, Array], Array]] = {
    "sinusoids": lambda rng, t: sinusoids(rng, t) + white(rng, t),
    "damped": lambda rng, t: 3 * sinusoids(rng, t, (0.995, 0.998)) + white(rng, t, 0.1),
    "correlated": lambda rng, t: sinusoids(rng, t) + 0.3 * autoregressive(rng, len(t), 0.7),
    "season": lambda rng, t: trend_and_season(rng, t) + white(rng, t),
    "season, correlated": lambda rng, t: trend_and_season(rng, t) + 0.3 * autoregressive(rng, len(t), 0.8),
    "heavy tails": lambda rng, t: sinusoids(rng, t) + 0.2 * rng.standard_t(3, len(t)),
    "15 % missing": lambda rng, t: some_missing(rng, trend_and_season(rng, t) + white(rng, t)),
    "walk": lambda rng, t: trend_and_season(rng, t) + np.cumsum(white(rng, t, 0.05)) + white(rng, t, 0.2),
    "break": lambda rng, t: trend_and_season(rng, t) + 2.0 * (t >= 300) + white(rng, t),
}
YEARLY = ("season", "season, correlated", "15 % missing", "walk", "break", "log air passengers")
PERIODS = {"carbon dioxide": 52} | dict.fromkeys(YEARLY, 12)


def real() -> dict[str, tuple[Array, int, range]]:
    """The series that are there, their horizons and origins."""
    found = {}
    for name, file, column, steps, origins, change in (
        ("log air passengers", "air_passengers.csv", "y", 24, range(72, 121, 3), np.log),
        ("carbon dioxide", "co2.csv", "co2", 104, range(700, 2181, 114), np.asarray),
    ):
        path = SHARED / "data" / "series" / file
        if not path.exists():
            print(f"{file} is not in {path.parent.relative_to(SHARED)}, so it is left out")
            continue
        with path.open() as opened:
            samples = np.array([float(row[column] or "nan") for row in csv.DictReader(opened)])
        found[name] = np.asarray(change(samples)), steps, origins
    return found


def naive(y: Array, steps: int, period: int) -> tuple[Array, Array]:
    """The last period, or the last sample if period is 1; and the standard deviations of such forecasts in y."""
    t, known = np.arange(len(y)), ~np.isnan(y)
    y = np.interp(t, t[known], y[known])
    sizes = [np.sqrt(np.mean((y[k:] - y[:-k]) ** 2)) for k in period * (1 + np.arange(steps) // period) if k < len(y)]
    return np.resize(y[-period:], steps), np.array(sizes + sizes[-1:] * (steps - len(sizes)))


def at_origin(job: tuple[str, Array, int, int]) -> tuple[str, dict[str, tuple[Array, Array]], float, float]:
    """Whether the samples after an origin are inside, and widths; CPU seconds of the fit and of the intervals."""
    name, y, origin, steps = job
    before, after = y[:origin], y[origin : origin + steps]
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no order up to|not converged|the signal differs")
        model = HankelModel().fit(before)
    fitted = time.process_time()
    lower, upper = model.predict_interval(steps, COVERAGE)
    seconds = fitted - begun, time.process_time() - fitted
    z = float(normal.ppf(0.5 + 0.5 * COVERAGE))
    last, spread = naive(before, steps, PERIODS.get(name, 1))
    found = {}
    for method, low, high in (
        ("ours", lower, upper),
        ("naive", last - z * spread, last + z * spread),
    ):
        inside = np.where(np.isnan(after), np.nan, (low <= after) & (after <= high))
        found[method] = inside, (high - low) / (2 * z * spread[0])
    return name, found, *seconds


def study(wanted: list[str]) -> None:
    jobs = [(name, y, o, steps) for name, (y, steps, origins) in real().items() for o in origins]
    t = np.arange(float(SAMPLES))
    for name, make in GENERATED.items():
        for seed in SEEDS:
            y = make(np.random.default_rng(seed), t)
            jobs += [(name, y, o, AHEAD) for o in ORIGINS]
    jobs = [job for job in jobs if not wanted or job[0] in wanted]
    with ProcessPoolExecutor(2) as pool:
        done = list(pool.map(at_origin, jobs))
    rows = []
    for name in dict.fromkeys(job[0] for job in jobs):
        here = [found for series, found, *_ in done if series == name]
        seconds = np.sum([times for series, _, *times in done if series == name], axis=0)
        row: dict[str, Any] = {"series": name, "origins": len(here)}
        for method in ("ours", "naive"):
            inside, width = (np.array([found[method][k] for found in here]) for k in (0, 1))
            row |= {method: float(np.nanmean(inside)), f"{method}: width": float(np.median(width.mean(axis=1)))}
            if method == "ours":
                quarter = inside.shape[1] // 4
                row |= {"first quarter": float(np.nanmean(inside[:, :quarter]))}
                row |= {"last quarter": float(np.nanmean(inside[:, -quarter:]))}
        rows.append(row | {"cost in fits": float(seconds[1] / seconds[0])})
    report("forecast-intervals", rows, coverage=COVERAGE)


if __name__ == "__main__":
    study(sys.argv[1:])
