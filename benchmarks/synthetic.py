"""The paper's synthetic set: 5,000 × 500,000 of rank 5, 15,149,850 entries without noise, as many for the test.

python benchmarks/synthetic.py
"""

from __future__ import annotations

import time

import numpy as np

from common import forget_peak, peak_memory, report, rmse
from rslm import Problem, solve
from rslm.datasets import make_low_rank
from rslm.losses import Square
from rslm.measurements import Entries

ROWS, COLUMNS, RANK, OBSERVED = 5_000, 500_000, 5, 15_149_850
C = 1e10  # the trace norm pulls W towards zero by about 1500/C, seen as test error


def main() -> None:
    data, left, right = make_low_rank(ROWS, COLUMNS, RANK, OBSERVED, random_state=0)
    rng = np.random.default_rng(1)
    i, t = rng.integers(ROWS, size=OBSERVED), rng.integers(COLUMNS, size=OBSERVED)
    truth = np.einsum("ij,ij->i", left[i], right[t])
    forget_peak()
    before = peak_memory()
    rows = []
    for solver in ("trust-region", "conjugate-gradient"):
        forget_peak()
        began = time.perf_counter()
        result = solve(
            Problem(Square(), Entries(data), C=C), RANK, solver=solver, random_state=0, tol=1e-8, max_iter=100
        )
        seconds = time.perf_counter() - began
        rows.append(
            {
                "solver": solver,
                "test RMSE": rmse(result.U, result.V, i, t, truth),
                "relative gap": result.certificate.relative_gap,
                "outcome": result.outcome.value,
                "seconds": seconds,
                "evaluations": int(result.history["evaluations"][-1]),
                "Hessian products": int(result.history["hessian_products"][-1]),
                "peak memory GB": peak_memory() / 1e9,
            }
        )
        del result
    report("synthetic", rows, C=C, memory_before_GB=before / 1e9)


if __name__ == "__main__":
    main()
