"""Rows of a table of tasks: their weights, which of them are held out, and the error on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm import MultiTaskRegressor
from rslm.data.files.table import NamedColumns


def weights_of_rows(table: NamedColumns, weight: str, taken: list[str]) -> NDArray[Any]:
    name, weights = table.numbers(weight)
    if name in taken:
        raise ValueError(f"{name!r} cannot be the weight as well as the task or the target")
    right = (weights >= 0) & (weights < np.inf)  # False where one is missing
    if not right.all():
        at = int(np.argmin(right))
        found = "missing" if np.isnan(weights[at]) else f"{weights[at]:g}"
        raise ValueError(
            f"{table.name}: the weight of row {at + 1} is {found}, but a finite number ≥ 0 is needed; 0 leaves it out"
        )
    if not weights.any():
        raise ValueError(f"{table.name}: all weights are zero, so no row is left")
    return weights


def rmse(
    model: MultiTaskRegressor, X: NDArray[Any], labels: NDArray[Any], y: NDArray[Any], weights: Any = None
) -> float:
    return float(np.sqrt(np.average((model.predict(X, labels) - y) ** 2, weights=weights)))


def intervals(
    model: MultiTaskRegressor,
    rows: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    known: NDArray[np.bool_],
    coverage: float,
) -> dict[str, Any]:
    """How wide intervals are, and how many targets of the `known` rows they cover; of all rows if none are known."""
    X, labels, y = (part[known] if known.any() else part for part in rows)
    lower, upper = model.predict_interval(X, labels, coverage)
    facts: dict[str, Any] = {"interval": coverage, "interval_width": float(np.mean(upper - lower))}
    if known.any():
        facts["part_covered"] = float(np.mean((lower <= y) & (y <= upper)))
    return facts


def held_out(labels: NDArray[Any], part: float, seed: int) -> NDArray[np.bool_]:
    """Choose a fraction of the rows of every task, but never all of them."""
    rng = np.random.default_rng(seed)
    codes = np.unique(labels.astype(str), return_inverse=True)[1]
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]  # sorted by task, in random order within a task
    counts = np.bincount(codes)
    place = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = np.zeros(len(codes), dtype=bool)
    chosen[order] = place < np.floor(part * np.repeat(counts, counts))
    return chosen
