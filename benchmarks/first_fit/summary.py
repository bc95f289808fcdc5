"""The table of errors, that of seconds, and how often rslm is not good enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from results import OURS, Results

LIMIT = 1.01  # of the error of rslm relative to that of the best other one


@dataclass
class Count:
    """On how many data sets a fit of ours is above the limit, or worse than effects alone."""

    sets: int = 0
    above: int = 0
    with_effects: int = 0
    worse: int = 0

    def add(self, to_best: float, to_effects: float) -> None:
        self.sets += not np.isnan(to_best)
        self.above += to_best > LIMIT
        self.with_effects += not np.isnan(to_effects)
        self.worse += to_effects > 1.0

    def __str__(self) -> str:
        effects = f", worse than effects alone on {self.worse} of {self.with_effects}" if self.with_effects else ""
        return f"above {LIMIT} x the best other on {self.above} of {self.sets} data sets{effects}"


def ratio(results: Results, data: str, seeds: list[int], ours: str, others: list[str]) -> float:
    """The largest ratio of our mean error to that of another, over the seeds that both have; NaN without any."""
    found = []
    for who in others:
        both = [s for s in seeds if results.has(data, s, ours) and results.has(data, s, who)]
        if both:
            found.append(results.mean(data, both, ours, "error") / results.mean(data, both, who, "error"))
    return max(found, default=np.nan)


def show(
    results: Results, sets: list[str], seeds: list[int], contestants: list[str], counts: dict[str, Count]
) -> list[dict[str, Any]]:
    """Print both tables of one family, and count; returns mean errors, one row a data set."""
    shown = [w for w in contestants if any(results.has(d, s, w) for d in sets for s in seeds)]
    if not shown:
        return []
    ours, others = [w for w in OURS if w in shown], [w for w in shown if w not in OURS]
    errors = [["error", *shown, "best other", *(f"{w} : best" for w in ours)]]
    seconds, rows = [["seconds", *shown]], []
    for data in sets:
        means = {w: results.mean(data, seeds, w, "error") for w in shown}
        rivals = {w: means[w] for w in others if not np.isnan(means[w])}
        ratios = {w: ratio(results, data, seeds, w, others) for w in ours}
        for w in ours:
            location = ["effects"] if w == "rslm" else ["effects", "effects-scaled"]
            counts.setdefault(w, Count()).add(ratios[w], ratio(results, data, seeds, w, location))
        best = min(rivals, key=lambda w: rivals[w], default="-")
        rows.append({"data": data} | {w: mean for w, mean in means.items() if not np.isnan(mean)})
        errors.append([data, *map(number, means.values()), best, *map(number, ratios.values())])
        seconds.append([data, *(number(results.mean(data, seeds, w, "seconds"), 2) for w in shown)])
    for cells in (errors, seconds):
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        print()
        for row in cells:
            print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
    return rows


def number(value: float, digits: int = 4) -> str:
    return "-" if np.isnan(value) else f"{value:.{digits}f}"
