"""Forecasts of real and generated series: how good they are, how often their intervals cover, and what they cost.

    python benchmarks/series/forecasts.py [--folder FOLDER]… [--only SERIES]… [--seeds N] [--cache FILE]
        [--ours HankelModel|dynamics]

At each of four origins a model is fitted to the samples before, with default settings, and forecasts two seasons, or
eight samples if there is no season, but at most a sixth of the series. The error is MASE: the mean absolute error
relative to that of seasonal naive forecasts, one season ahead, of the samples before the origin. Tables have geometric
means over series of the mean over origins, the worst ratio to the naive forecast on a series, the coverage of 90 %
intervals and CPU seconds for each fit. Required of HankelModel: a geometric mean of at most that of ETS, no more than
1.1 times the naive forecast on every series, coverage of 85 to 95 % and less than a second. "dynamics" is what it
forecasts with, without the poles that it finds.

Series come from statsmodels (`pip install statsmodels`), $RSLM_SHARED/data/series, from generators, and from files
called name.period.csv in the given folders. With --cache, results of the other methods are kept in a file and not
computed again; delete it if a series or a method has changed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from contestants import OTHERS, OURS, Contestant
from generated_series import generated
from real_series import Series, air_passengers, folder, shortened, statsmodels_series

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import report
from rslm.runtime.types import Floats

ORIGINS = 4
WITHOUT_SEASON = 8
FIRST_SEED = 1000

Result = dict[str, list[float]]  # MASE, coverage and CPU seconds, for each origin


def origins(series: Series) -> tuple[list[int], int]:
    n = len(series.samples)
    steps = max(1, min(2 * series.period if series.period > 1 else WITHOUT_SEASON, n // 6))
    first = max(n // 2, n - ORIGINS * steps)
    return [int(o) for o in np.linspace(first, n - steps, ORIGINS)], steps


def scale(before: Floats, period: int) -> float:
    """Mean absolute error of seasonal naive forecasts, or of naive ones in series of less than a season and a half."""
    period = period if 2 * len(before) > 3 * period else 1
    return float(np.nanmean(np.abs(before[period:] - before[:-period])))


def measured(series: Series, contestant: Contestant) -> Result:
    found: Result = {"MASE": [], "coverage": [], "seconds": []}
    at, steps = origins(series)
    for origin in at:
        before, after = series.samples[:origin], series.samples[origin : origin + steps]
        begun = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ahead, lower, upper = contestant(before.copy(), steps, series.period)
        found["seconds"].append(time.process_time() - begun)
        known = ~np.isnan(after)
        inside = (lower <= after) & (after <= upper)
        found["MASE"].append(float(np.mean(np.abs(ahead - after)[known])) / scale(before, series.period))
        found["coverage"].append(float(np.mean(inside[known])))
    return found


class Cache:
    """Results of the other methods, in a file if there is a path."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[str, Result] = json.loads(path.read_text()) if path and path.exists() else {}

    def result(self, series: Series, name: str, contestant: Contestant) -> Result:
        key = f"{series.name}/{len(series.samples)}/{name}"
        if key not in self.known:
            self.known[key] = measured(series, contestant)
            if self.path:
                partial = self.path.with_suffix(".partial")
                partial.write_text(json.dumps(self.known))
                os.replace(partial, self.path)
        return self.known[key]


def study(series: list[Series], cache: Cache, ours: str) -> dict[str, dict[str, Result]]:
    """Results by method and series."""
    found: dict[str, dict[str, Result]] = {name: {} for name in (ours, *OTHERS)}
    for s in series:
        for name, other in OTHERS.items():
            found[name][s.name] = cache.result(s, name, other)
        found[ours][s.name] = measured(s, OURS[ours])
    return found


def by_series(found: dict[str, dict[str, Result]], ours: str) -> list[dict[str, Any]]:
    rows = []
    for name, here in found[ours].items():
        row: dict[str, Any] = {"series": name}
        row |= {method: float(np.mean(results[name]["MASE"])) for method, results in found.items()}
        row["ours / naive"] = row[ours] / row["naive"]
        row["coverage"] = float(np.mean(here["coverage"]))
        row["seconds"] = float(np.mean(here["seconds"]))
        rows.append(row)
    return rows


def summary(found: dict[str, dict[str, Result]]) -> list[dict[str, Any]]:
    rows = []
    naive = {name: np.mean(result["MASE"]) for name, result in found["naive"].items()}
    for method, results in found.items():
        errors = {name: np.mean(result["MASE"]) for name, result in results.items()}
        rows.append(
            {
                "method": method,
                "MASE": float(np.exp(np.mean(np.log(list(errors.values()))))),
                "worst / naive": float(max(errors[name] / naive[name] for name in errors)),
                "coverage": float(np.mean([result["coverage"] for result in results.values()])),
                "seconds": float(np.mean([result["seconds"] for result in results.values()])),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", action="append", type=Path, default=[])
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--ours", choices=OURS, default="HankelModel")
    options = parser.parse_args()
    real = shortened(air_passengers() + statsmodels_series() + [s for path in options.folder for s in folder(path)])
    made = [
        Series(f"{s.name} {seed}", s.samples, s.period)
        for seed in range(FIRST_SEED, FIRST_SEED + options.seeds)
        for s in generated(seed)
    ]
    for title, series in (("real", real), ("generated", made)):
        wanted = [s for s in series if not options.only or s.name in options.only]
        if wanted:
            found = study(wanted, Cache(options.cache), options.ours)
            report(f"forecasts-{title}-series", by_series(found, options.ours))
            report(f"forecasts-{title}", summary(found), series=len(wanted))


if __name__ == "__main__":
    main()
