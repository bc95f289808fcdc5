"""Real series: those that statsmodels carries, those of the shared data, and folders of CSV files."""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import SHARED
from rslm.runtime.types import Floats

LONGEST = 1000  # samples that are kept, the last ones
NATIONAL = ["realgdp", "realcons", "realinv", "realgovt", "realdpi", "pop"]
MONETARY = ["cpi", "m1", "tbilrate", "unemp", "infl", "realint"]


@dataclass(frozen=True)
class Series:
    name: str
    samples: Floats  #: NaN if missing
    period: int  #: of the season, 1 if there is none; only other methods are given it


def statsmodels_series() -> list[Series]:
    """Sunspots, Nile, El Niño, macroeconomic data of the USA and carbon dioxide."""
    from statsmodels import datasets

    def column(data: Any, name: str) -> Floats:
        return np.asarray(data.load_pandas().data[name], dtype=float)

    months = datasets.elnino.load_pandas().data.set_index("YEAR").to_numpy(dtype=float).ravel()
    return [
        Series("sunspots", column(datasets.sunspots, "SUNACTIVITY"), 1),
        Series("nile", column(datasets.nile, "volume"), 1),
        Series("elnino", months, 12),
        Series("co2", column(datasets.co2, "co2"), 52),
        *(Series(name, column(datasets.macrodata, name), 4) for name in NATIONAL + MONETARY),
    ]


def air_passengers() -> list[Series]:
    path = SHARED / "data" / "series" / "air_passengers.csv"
    return [Series("air passengers", _last_column(path), 12)] if path.exists() else []


def folder(path: Path) -> list[Series]:
    """The last columns of files called name.period.csv."""
    files = sorted(path.glob("*.*.csv"))
    if not files:
        sys.exit(f"{path} has no files called name.period.csv, such as sales.12.csv")
    return [Series(file.name.split(".")[0], _last_column(file), int(file.name.split(".")[1])) for file in files]


def shortened(series: list[Series]) -> list[Series]:
    return [Series(s.name, s.samples[-LONGEST:], s.period) for s in series]


def _last_column(path: Path) -> Floats:
    with path.open() as opened:
        rows = list(csv.reader(opened))[1:]
    return np.array([float(row[-1]) if row and row[-1] else np.nan for row in rows])
