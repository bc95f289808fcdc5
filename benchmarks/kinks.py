"""What kinks and bounds cost: MovieLens-1M, 80/20 split of seed 0, with the work of every continuation stage.

    python benchmarks/kinks.py             # all cases
    python benchmarks/kinks.py absolute    # the cases whose name contains this word

C, ε and the weighting are the best ones on 5 % of the training part (`benchmarks/robust.py movielens`); the bounds have
the C of `benchmarks/nonnegative.py`. CPU seconds count all threads.
"""

from __future__ import annotations

import sys
import time
import warnings
from itertools import groupby
from typing import Any

from common import report
from movielens import matrix, split
from rslm import MatrixCompletion
from rslm.losses import Absolute, EpsilonInsensitive

CASES: dict[str, dict[str, Any]] = {
    "square": {"rank": 10, "C": 1000.0},
    "bounds, rank 10": {"rank": 10, "C": 2000.0, "bounds": (1, 5)},
    "bounds, rank 20": {"rank": 20, "C": 1000.0, "bounds": (1, 5)},
    "square, weighted": {"rank": 10, "C": 700.0, "weighting": 0.5, "tol": 1e-3},
    "absolute, weighted": {"rank": 10, "C": 1400.0, "weighting": 0.5, "tol": 1e-3, "loss": Absolute()},
    "ε-insensitive, weighted": {
        "rank": 10,
        "C": 1500.0,
        "weighting": 0.5,
        "tol": 1e-3,
        "loss": EpsilonInsensitive(0.25),
    },
    "square, weighted, location": {"rank": 10, "C": 700.0, "weighting": 0.5, "tol": 1e-3, "effects": "auto"},
    "absolute, weighted, location": {
        "rank": 10,
        "C": 1400.0,
        "weighting": 0.5,
        "tol": 1e-3,
        "loss": Absolute(),
        "effects": "auto",
    },
}


def stages_of(history: dict[str, Any]) -> list[dict[str, Any]]:
    """The work of every stage: what it relaxes, and iterations, evaluations, Hessian products and seconds."""
    count, rows, start = len(history["seconds"]), [], (0.0, 0.0, 0.0)
    kinds = [(history["C"][k], tuple((r.of, r.amount) for r in history["relaxations"][k])) for k in range(count)]
    for (C, relaxed), members in groupby(range(count), key=lambda k: kinds[k]):
        own = list(members)
        end = tuple(float(history[name][own[-1]]) for name in ("evaluations", "hessian_products", "seconds"))
        done = [b - a for a, b in zip(start, end, strict=True)]
        row = {"C": float(C), "relaxed": ", ".join(f"{of} {amount:.3g}" for of, amount in relaxed) or "nothing"}
        row |= {"iterations": len(own) - 1, "evaluations": int(done[0]), "Hessian products": int(done[1])}
        row |= {"s": done[2], "relative gradient": float(history["relative_gradient"][own[-1]])}
        rows.append(row | {"objective": f"{history['objective'][own[-1]]:.7g}"})
        start = end[0], end[1], end[2]
    return rows


def measured(name: str, X: Any, params: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*no observed entry")
        wall, cpu = time.perf_counter(), time.process_time()
        model = MatrixCompletion(random_state=0, **({"effects": None, "weighting": 0} | params)).fit(X)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    history, certificate = model.history_, model.certificate_
    stages = stages_of(history)
    row = {"case": name, "s": wall, "CPU s": cpu, "stages": len(stages), "iterations": model.n_iter_}
    row |= {"evaluations": int(history["evaluations"][-1]), "Hessian products": int(history["hessian_products"][-1])}
    row |= {"objective": f"{certificate.primal:.9g}", "relative gap": certificate.relative_gap}
    return row | {"outcome": model.outcome_}, [{"case": name} | stage for stage in stages]


def main(words: list[str]) -> None:
    X, rows, stages = matrix(split(0)[0]), [], list[dict[str, Any]]()
    chosen = {name: params for name, params in CASES.items() if not words or any(word in name for word in words)}
    for name, params in chosen.items():
        row, own = measured(name, X, params)
        rows.append(row)
        stages += own
    report("kinks_stages", stages)
    report("kinks", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
