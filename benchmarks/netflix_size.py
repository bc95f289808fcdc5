"""A generated matrix of the size of the Netflix data: 17,770 × 480,189, 80 million training entries, rank 10, float32.

python benchmarks/netflix_size.py [number of ratings]
"""

from __future__ import annotations

import sys
import time

import numpy as np

from common import SHARED, best_seconds, forget_peak, peak_memory, report, rmse
from rslm import MatrixCompletion, Objective, Problem
from rslm.data import ObservedMatrix, holdout
from rslm.datasets import make_ratings
from rslm.losses import Square
from rslm.measurements import Entries

RANK = 10


def seconds_per_entry(data: ObservedMatrix) -> tuple[float, float]:
    """Wall seconds of one evaluation, in all and per entry."""
    objective = Objective(Problem(Square(), Entries.of_transposed(data), C=1e3))
    U = np.random.default_rng(0).standard_normal((data.shape[1], RANK))
    U /= np.linalg.norm(U)

    def once() -> None:
        objective.evaluate(U).release()

    wall, _ = best_seconds(once, 3)
    return wall, wall / len(data)


def movielens() -> ObservedMatrix | None:
    path = SHARED / "data" / "ml-1m" / "ml-1m.npz"
    if not path.exists():
        return None
    file = np.load(path)
    train = np.random.default_rng(0).permutation(1_000_209)[:800_167]
    values = file["value"][train].astype(np.float32)
    return ObservedMatrix.from_triplets(file["col"][train], file["row"][train], values, shape=(6040, 3706))


def main() -> None:
    ratings = int(float(sys.argv[1])) if len(sys.argv) > 1 else 81_000_000
    made = make_ratings(480_189, 17_770, ratings, random_state=0, dtype=np.float32)
    train, test = holdout(made.data, 1_000_000 / ratings, 0)
    floor = made.noise_floor
    del made
    arrays = train.indptr.nbytes + train.index.nbytes + train.values.nbytes
    generated = peak_memory()
    forget_peak()
    model = MatrixCompletion(RANK, C=1.5e4, effects=None, weighting=0.5, random_state=0, tol=1e-3)
    began = time.perf_counter()
    model.fit(train)
    fitted = time.perf_counter() - began
    held_out = rmse(model.row_factors_, model.col_factors_, test.rows_of_entries(), test.index, test.values)
    wall, each = seconds_per_entry(train)
    small = movielens()
    each_small = seconds_per_entry(small)[1] if small is not None else float("nan")
    report(
        "netflix_size",
        [
            {
                "entries": len(train),
                "fit s": fitted,
                "iterations": model.n_iter_,
                "evaluations": int(model.history_["evaluations"][-1]),
                "Hessian products": int(model.history_["hessian_products"][-1]),
                "outcome": model.outcome_,
                "held-out RMSE": held_out,
                "noise floor": floor,
                "evaluation s": wall,
                "ns/entry": 1e9 * each,
                "ns/entry ML-1M": 1e9 * each_small,
                "ratio": each / each_small,
                "input arrays GB": arrays / 1e9,
                "peak GB": peak_memory() / 1e9,
                "peak while generating GB": generated / 1e9,
            }
        ],
    )


if __name__ == "__main__":
    main()
