"""The ratings of the paper, films × users. Those that may not be passed on are used where the user has them."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from common import SHARED
from paper.observed import Entries
from rslm.datasets import load_movielens, load_netflix, make_ratings
from rslm.runtime.types import Floats, Indices64

Triplets = tuple[Indices64, Indices64, Floats, tuple[int, int]]

NAMES = ("ML-1M", "ML-10M", "ML-20M", "Netflix")
GENERATED = "Generated"  # small, for a quick run, and for those who have none of the others
STATISTICS = {  # as the paper prints them: d, T, entries
    "ML-1M": (3_706, 6_040, 1_000_209),
    "ML-10M": (10_677, 71_567, 10_000_054),
    "ML-20M": (26_744, 138_493, 20_000_263),
    "Netflix": (17_770, 480_189, 100_198_805),
}


def variable(name: str) -> str:
    """The environment variable with the path of the data."""
    return "RSLM_" + name.upper().replace("-", "_")


def absent(name: str) -> str:
    """What a table says of data that are not here."""
    return f"not here: set {variable(name)} to the path"


def load(name: str) -> Triplets | None:
    """Films, users, ratings and the shape; None if the data are not here."""
    path = os.environ.get(variable(name))
    if path:
        return _triplets(load_netflix(path) if name == "Netflix" else load_movielens(_which(name), path))
    if name == GENERATED:
        return _triplets(make_ratings(600, 400, 30_000, rank=4, noise=0.6, random_state=0).data)
    file = SHARED / "data" / "ml-1m" / "ml-1m.npz"
    return _from_file(file) if name == "ML-1M" and file.exists() else None


@cache
def loaded(name: str) -> Triplets:
    """The data, which are here."""
    found = load(name)
    if found is None:
        raise FileNotFoundError(f"{name} is {absent(name)}")
    return found


def entries(name: str, at: Indices64, offset: float = 0.0) -> Entries:
    """The ratings with these numbers, less an offset."""
    rows, cols, values, shape = loaded(name)
    return Entries.of(rows[at], cols[at], values[at] - offset, shape)


def parts(name: str, seed: int) -> tuple[Indices64, Indices64]:
    """Numbers of the ratings to learn from and of those for the test."""
    return split(len(loaded(name)[0]), seed)


def split(count: int, seed: int) -> tuple[Indices64, Indices64]:
    """80 % of the entries to learn from, 20 % for the test."""
    order = np.random.default_rng(seed).permutation(count)
    cut = int(0.8 * count)
    return order[:cut], order[cut:]


def held_out(train: Indices64) -> tuple[Indices64, Indices64]:
    """95 % of the training part, and 5 % on which settings are chosen."""
    order = np.random.default_rng(7).permutation(len(train))
    cut = len(order) // 20
    return train[order[cut:]], train[order[:cut]]


def _which(name: str) -> Any:
    return name.removeprefix("ML-").lower()


def _triplets(data: Any) -> Triplets:
    """An ObservedMatrix is users × films."""
    return data.index.astype(np.int64), data.rows_of_entries(), data.values.astype(np.float64), data.shape[::-1]


def _from_file(file: Path) -> Triplets:
    table = np.load(file)
    rows, cols = table["row"].astype(np.int64), table["col"].astype(np.int64)
    return rows, cols, table["value"].astype(np.float64), (int(rows.max()) + 1, int(cols.max()) + 1)
