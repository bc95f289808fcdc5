"""Tables from which 10, 30 or 50 % of the entries are removed at random."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from cases import AbsentError, Array, Entries, Maker, needed
from sklearn import datasets


def removed(table: Callable[[int], Array], share: float, seed: int) -> Entries:
    """At least two entries of every column stay."""
    full = table(seed)
    rng = np.random.default_rng([seed, round(100 * share)])
    gone = rng.random(full.shape) < share
    for j in np.flatnonzero((~gone).sum(axis=0) < 2):
        gone[rng.permutation(len(full))[:2], j] = False
    rows, cols = np.nonzero(gone)
    return Entries(np.where(gone, np.nan, full), rows, cols, full[gone], full.std(axis=0))


def camera(_: int) -> Array:
    try:
        from PIL import Image
    except ModuleNotFoundError as missing:
        raise AbsentError("the image needs Pillow: pip install pillow") from missing
    return np.asarray(Image.open(needed("image/camera.png")).convert("L"), dtype=float)


def passengers(_: int) -> Array:
    """Years by months."""
    text = needed("series/air_passengers.csv").read_text().splitlines()[1:]
    return np.array([float(line.split(",")[1]) for line in text]).reshape(12, 12)


def california(rows: int, seed: int) -> Array:
    """Eight features of different units with correlations and heavy tails, as those of the California houses have."""
    rng = np.random.default_rng([seed, rows])
    wealth, density, north = rng.standard_normal((3, rows))
    own = rng.standard_normal((8, rows))
    size = 0.6 * wealth - 0.5 * density
    latitude = 35.6 + 2.0 * np.tanh(1.5 * north) + 0.4 * own[6]
    return np.column_stack(
        [
            np.exp(1.2 + 0.4 * wealth + 0.2 * own[0]),  # income, 10,000 dollars
            np.clip(28.0 + 9.0 * density + 8.0 * own[1], 1.0, 52.0),  # age, years
            np.exp(1.65 + 0.25 * size + 0.12 * own[2]),  # rooms
            np.exp(0.07 + 0.05 * size + 0.04 * own[3] + 0.3 * (rng.random(rows) < 0.02)),  # bedrooms
            np.exp(7.0 + 0.4 * density + 0.6 * own[4]),  # inhabitants
            np.exp(1.05 - 0.1 * wealth + 0.1 * density + 0.15 * own[5] + (rng.random(rows) < 0.01)),  # per house
            latitude,
            -119.6 - 0.85 * (latitude - 35.6) + 0.7 * own[7],  # longitude
        ]
    )


def loaded(name: str) -> Callable[[int], Array]:
    return lambda _: np.asarray(getattr(datasets, f"load_{name}")().data, dtype=float)


TABLES: dict[str, Callable[[int], Array]] = {
    "camera": camera,
    "passengers": passengers,
    "diabetes": loaded("diabetes"),
    "wine": loaded("wine"),
    "breast-cancer": loaded("breast_cancer"),
    "california-500": partial(california, 500),
    "california-2000": partial(california, 2000),
}
SETS: dict[str, Maker] = {
    f"{name}-{share}%": partial(removed, table, share / 100) for name, table in TABLES.items() for share in (10, 30, 50)
}
