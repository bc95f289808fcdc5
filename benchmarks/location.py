"""What location does for certificates, and what it and the search for settings cost.

    python benchmarks/location.py gap|cost|search|rank10

gap: the relative duality gap against the rank, with and without location, on ML-100K and on sparse generated ratings;
C and weighting are those that are found with rank="auto", one pair with location and one without.
cost: an evaluation and a Hessian product on ML-1M at rank 10 with effects, relative to those without.
search: `fit` with everything automatic on ML-1M, relative to one fit with what it has found.
rank10: test RMSE on ML-1M at rank 10 with everything else automatic, five splits, as it is and within 1 to 5.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from common import best_seconds, report
from rslm import MatrixCompletion, ObservedMatrix, Problem
from rslm.evaluation.objective import Objective
from rslm.location import Location
from rslm.losses import Square
from rslm.measurements import Entries

sys.path.insert(0, str(Path(__file__).parent / "first_fit"))
import rating_sets

RANKS = 1, 2, 4, 8, 16, 32, 64


def ratings(name: str) -> Any:
    """The training part of the first split."""
    warnings.filterwarnings("ignore", message=".*no observed entry")
    case: Any = rating_sets.SETS[name](0)
    return case.X


def gap() -> list[dict[str, Any]]:
    rows = []
    for name in ("sparse-ratings", "ml-100k"):
        X = ratings(name)
        for words, effects in (("with", "auto"), ("without", None)):
            found = MatrixCompletion(effects=effects, random_state=0).fit(X)
            given = found.effects if found._ridges is None else (found._ridges.rows, found._ridges.columns)
            setting = {"C": found.C_, "weighting": found.weighting_, "effects": given, "random_state": 0}
            row = {
                "data": name,
                "location": words,
                "found": f"rank {found.rank_}, gap {found.certificate_.relative_gap:.1e}",
            }
            for rank in RANKS:
                model = MatrixCompletion(rank, **setting).fit(X)
                row[f"rank {rank}"] = f"{model.certificate_.relative_gap:.1e}"
            rows.append(row)
    return rows


def cost() -> list[dict[str, Any]]:
    data = Entries(ObservedMatrix.from_any(ratings("ml-1m")))
    d, rng = data.shape[0], np.random.default_rng(0)
    U = rng.standard_normal((d, 10))
    U /= np.linalg.norm(U)
    seconds: dict[str, tuple[float, float]] = {}
    for words, location in (("without", None), ("with effects", Location(True, 300.0, 300.0))):
        objective = Objective(Problem(Square(), data, None, 30.0, location=location), n_threads=1)
        point = objective.point(U)
        evaluation = objective.evaluate(point)
        direction = rng.standard_normal(point.shape)
        product = evaluation.hessian_product
        seconds[words] = best_seconds(lambda: objective.evaluate(point))[1], best_seconds(lambda: product(direction))[1]  # noqa: B023
    ratios = [b / a for a, b in zip(seconds["without"], seconds["with effects"], strict=True)]
    return [{"evaluation": ratios[0], "Hessian product": ratios[1]}]


def search() -> list[dict[str, Any]]:
    X = ratings("ml-1m")
    began = time.perf_counter()
    found = MatrixCompletion(random_state=0).fit(X)
    all_seconds = time.perf_counter() - began
    ridges = found._ridges.rows, found._ridges.columns
    one = MatrixCompletion(found.rank_, found.C_, weighting=found.weighting_, effects=ridges, random_state=0)
    began = time.perf_counter()
    one.fit(X)
    seconds = time.perf_counter() - began
    tried = len(found.path_["C"])
    row = {"rank": found.rank_, "tried": tried, "all, s": all_seconds, "one fit, s": seconds}
    return [row | {"ratio": all_seconds / seconds}]


def rank10() -> list[dict[str, Any]]:
    rows = []
    for seed in range(5):
        case: Any = rating_sets.SETS["ml-1m"](seed)
        predicted = MatrixCompletion(10, random_state=0).fit(case.X).predict(case.rows, case.cols)
        within = np.clip(predicted, 1.0, 5.0)
        rows.append({"seed": seed, "RMSE": case.error(predicted), "within 1 to 5": case.error(within)})
    means = {name: float(np.mean([row[name] for row in rows])) for name in ("RMSE", "within 1 to 5")}
    return [*rows, {"seed": "mean"} | means]


if __name__ == "__main__":
    parts = {"gap": gap, "cost": cost, "search": search, "rank10": rank10}
    if len(sys.argv) != 2 or sys.argv[1] not in parts:
        sys.exit(__doc__)
    report(f"location_{sys.argv[1]}", parts[sys.argv[1]]())
