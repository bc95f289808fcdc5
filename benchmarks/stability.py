"""How far answers differ between instruction sets: twelve small problems a row, every set, in one process.

A rounding error may decide which path a solver takes, but not where a converged fit ends: where the answer is unique,
converged fits agree to 1e-9 in the objective and to 1e-6 · scale in W.

python benchmarks/stability.py [tol]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from common import report
from rslm import ObservedMatrix, Problem, solve
from rslm.kernels import instruction_sets, use_instruction_set
from rslm.losses import Absolute, EpsilonInsensitive, Hinge, Huber, Logistic, Loss, Square
from rslm.measurements import Entries
from rslm.structures import Box

PROBLEMS = 12
LOSSES: dict[str, Loss] = {
    "square": Square(),
    "huber 0.5": Huber(0.5),
    "huber 0.02": Huber(0.02),
    "absolute": Absolute(),
    "ε-insensitive": EpsilonInsensitive(0.1),
    "logistic": Logistic(),
    "hinge": Hinge(),
}
BOUNDS = {"": None, ", W ≥ 0": Box(0, None), ", 1 ≤ W ≤ 5": Box(1, 5)}


def ratings(rng: np.random.Generator, binary: bool) -> ObservedMatrix:
    """Of any small size, with noise or without, with outliers or without."""
    n, m, rank = int(rng.integers(20, 80)), int(rng.integers(15, 40)), int(rng.integers(1, 4))
    W = 3 + rng.standard_normal((n, rank)) @ rng.standard_normal((rank, m))
    i, j = np.nonzero(rng.random((n, m)) < rng.uniform(0.25, 0.6))
    values = np.clip(W[i, j] + rng.choice([0, 0.2]) * rng.standard_normal(len(i)), 1, 5)
    values = np.where(rng.random(len(i)) < rng.choice([0, 0.05]), rng.uniform(1, 5, len(i)), values)
    return ObservedMatrix.from_triplets(i, j, np.where(values > 3, 1.0, -1.0) if binary else values, (n, m))


def compare(loss: Loss, box: Box | None, seed: int, tol: float) -> dict[str, Any]:
    """The largest differences between the sets, for one problem of random size, C and rank."""
    rng = np.random.default_rng(seed)
    data, C, rank = ratings(rng, loss.binary), float(10 ** rng.uniform(-1, 2.5)), int(rng.integers(1, 6))
    results = []
    for name in instruction_sets():
        use_instruction_set(name)
        problem = Problem(loss, Entries.of_transposed(data), box, C=C)
        results.append(solve(problem, rank, random_state=0, tol=tol))
    first = results[0]
    W, value = first.U @ first.V.T, first.certificate.primal
    return {
        "objective": max(abs(r.certificate.primal - value) for r in results) / abs(value),
        "W": max(float(np.abs(r.U @ r.V.T - W).max()) for r in results) / float(np.abs(W).max()),
        "same path": all(r.n_iter == first.n_iter for r in results),
        "converged": all(r.converged for r in results),
        "iterations": first.n_iter,
    }


def main() -> None:
    tol = float(sys.argv[1]) if len(sys.argv) > 1 else 1e-6
    rows = []
    for name, loss in LOSSES.items():
        for bounds, box in BOUNDS.items():
            if loss.binary and bounds == ", 1 ≤ W ≤ 5":
                continue
            found = [compare(loss, box, seed, tol) for seed in range(PROBLEMS)]
            ended = [f for f in found if f["converged"]]
            rows.append(
                {
                    "problem": name + bounds,
                    "converged": len(ended),
                    "same path": sum(f["same path"] for f in ended),
                    "objective": max(f["objective"] for f in ended),
                    "W/scale": max(f["W"] for f in ended),
                    "iterations": sum(f["iterations"] for f in found) // PROBLEMS,
                }
            )
    report("stability", rows, tol=tol, sets=list(instruction_sets()))


if __name__ == "__main__":
    main()
