"""Evaluation, Hessian product and preconditioner against the yardstick, in CPU seconds of one run.

python benchmarks/kernel.py [number of entries]
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from common import SHARED, best_seconds, needed, report
from rslm.kernels import Columns

C = 100.0
ROUNDS = 4  # ours and the yardstick in turn, so that both meet the same weather


def main() -> None:
    sys.path.insert(0, str(needed(SHARED / "bench" / "reference.py").parent))
    from reference import Reference, ratings

    indptr, index, value = ratings(n=int(float(sys.argv[1])) if len(sys.argv) > 1 else 8_000_000)
    d, T = 10_677, len(indptr) - 1
    yardstick = Reference()
    columns = Columns(indptr, index, d)
    by_rows = columns.by_rows
    rows: list[dict[str, Any]] = []
    for rank in (5, 10, 20, 40):
        rng = np.random.default_rng(1)
        U, xi = rng.standard_normal((2, d, rank))
        U /= np.linalg.norm(U)
        ridge = np.full(T, 0.5 / C)
        for dtype in (np.float64, np.float32):
            y = value.astype(dtype)
            for threads in (1, 2):
                solved = columns.evaluate(y, U, ridge, threads)
                factors = by_rows.factorise(solved.V, np.ones(d), threads)
                ours: dict[str, Any] = {
                    "evaluation": partial(columns.evaluate, y, U, ridge, threads, solved),
                    "hessian": partial(columns.derivative, solved, U, xi, threads),
                    "preconditioner": partial(by_rows.factorise, solved.V, np.ones(d), threads, scratch=factors),
                }
                if rank in (5, 10, 20):  # what the yardstick is compiled for
                    ours["yardstick"] = yardstick.evaluator(indptr, index, value, U, C, threads=threads, dtype=dtype)
                wall, cpu = dict.fromkeys(ours, np.inf), dict.fromkeys(ours, np.inf)
                for _ in range(ROUNDS):
                    for name, f in ours.items():
                        w, c = best_seconds(f, 2)
                        wall[name], cpu[name] = min(wall[name], w), min(cpu[name], c)
                row: dict[str, Any] = {"rank": rank, "data": np.dtype(dtype).name, "threads": threads}
                row |= {f"{name} cpu s": cpu[name] for name in ours}
                row |= {"evaluation wall s": wall["evaluation"], "hessian wall s": wall["hessian"]}
                if "yardstick" in ours:
                    row["evaluation/yardstick"] = cpu["evaluation"] / cpu["yardstick"]
                row["hessian/evaluation"] = cpu["hessian"] / cpu["evaluation"]
                row["preconditioner/evaluation"] = cpu["preconditioner"] / cpu["evaluation"]
                if threads == 2:
                    row["speed-up"] = rows[-1]["evaluation wall s"] / wall["evaluation"]
                rows.append(row)
    report("kernel", rows, entries=len(index), rows_of_matrix=d, columns_of_matrix=T)


if __name__ == "__main__":
    main()
