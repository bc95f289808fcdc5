"""Ratings: MovieLens compared with other tools, averages, side information, and what location does for certificates."""

from __future__ import annotations

from measured.store import find
from measured.written import Columns, columns, first, fixed, grid, power, with_circumstances
from tabular import table

GAP_RANKS = 1, 4, 16, 32, 64
SETS = {"ml-100k": "MovieLens-100K", "sparse-ratings": "sparse ratings"}
METHODS = {
    "trust-region": "rslm, trust region, C = 1000",
    "conjugate-gradient": "rslm, conjugate gradients, C = 1000",
    "weighted, α = 0.5": "rslm, weighted trace norm, α = 0.5",
    "cornac MF": "cornac MF with biases",
    "cmfrec ALS": "cmfrec ALS with biases",
}
FEATURES = {
    "mean of the film": "mean of the film",
    "plain completion": "plain completion",
    "constant, no features": "with means of users and films",
    "features and completion": "with genres, age, sex and occupation",
    "InductiveCompletion()": "the same, `InductiveCompletion()` without any setting",
}


def movielens() -> str:
    report = find("movielens")
    rows = [row | {"title": METHODS[row["method"]]} for row in report.rows if row["method"] in METHODS]
    asked: Columns = {
        "MovieLens-1M, rank 10": ("title", str),
        "test RMSE": ("test RMSE", fixed(4)),
        "s to within 0.001 of it": ("s to within 0.001", fixed(2)),
        "s to converge": ("s to converge", fixed(2)),
    }
    return with_circumstances(columns(rows, asked), report)


def averaging() -> str:
    report = find("averaging")
    shown = {"fit": "rslm, one matrix"}
    shown |= {f"average {n}": f"rslm, `average={n}`" for n in (50, 100, 200)}
    shown |= {f"myFM {n}": f"myFM, {n} iterations" for n in (50, 100, 200)}
    parts = list(dict.fromkeys(row["data"] for row in report.rows))

    def cell(name: str, part: str) -> str:
        row = first(report.rows, data=part, rank=10, method=name)
        return f"{row['RMSE']:.4f} ({row['CPU s']:.0f})"

    there = [name for name in shown if any(row["method"] == name for row in report.rows)]
    head = ["test RMSE (CPU seconds), rank 10", *(part.replace("ML-1M ", "") for part in parts)]
    lines = [[shown[name], *(cell(name, part) for part in parts)] for name in there]
    return with_circumstances(table(head, lines), report)


def side_information() -> str:
    known, new = find("inductive-folds"), find("inductive-cold")
    lines = [
        [title, *(f"{first(report.rows, method=name)['mean']:.3f}" for report in (known, new))]
        for name, title in FEATURES.items()
    ]
    return with_circumstances(table(["MovieLens-100K, RMSE", "known users", "new users"], lines), known, new)


def location_gap() -> str:
    report = find("location_gap")
    lines = {
        f"{title}, {words} mean and effects": first(report.rows, data=name, location=words)
        for name, title in SETS.items()
        for words in ("with", "without")
    }

    def cell(line: str, column: str) -> str:
        return power(float(lines[line][f"rank {column}"]))

    body = grid("limit on the rank", list(lines), [str(rank) for rank in GAP_RANKS], cell)
    return with_circumstances(body, report)


PLACES = {
    "movielens": movielens,
    "averaging": averaging,
    "side-information": side_information,
    "location-gap": location_gap,
}
