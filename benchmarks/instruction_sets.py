"""An evaluation and a Hessian product on every instruction set of this machine, one thread, in CPU seconds of one run.

python benchmarks/instruction_sets.py [number of entries]
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from common import best_seconds, report
from rslm.kernels import Columns, instruction_sets, use_instruction_set

D, A_COLUMN = 5_000, 200


def main() -> None:
    entries = int(float(sys.argv[1])) if len(sys.argv) > 1 else 2_000_000
    rng = np.random.default_rng(0)
    T = entries // A_COLUMN
    index = rng.integers(0, D, (T, A_COLUMN)).astype(np.int32)
    columns = Columns(np.arange(0, T * A_COLUMN + 1, A_COLUMN), index.ravel(), D)
    y = rng.standard_normal(T * A_COLUMN)
    rows: list[dict[str, Any]] = []
    for rank in (5, 10, 20):
        U, xi = rng.standard_normal((2, D, rank))
        widest = 0.0
        for name in reversed(instruction_sets()):  # the widest first
            use_instruction_set(name)
            solved = columns.evaluate(y, U, np.ones(T), 1)
            _, evaluation = best_seconds(partial(columns.evaluate, y, U, np.ones(T), 1, solved), 7)
            _, product = best_seconds(partial(columns.derivative, solved, U, xi, 1), 7)
            widest = widest or evaluation
            row = {"rank": rank, "instruction set": name, "evaluation cpu s": evaluation, "hessian cpu s": product}
            rows.append(row | {"evaluation/widest": evaluation / widest})
    report("instruction_sets", rows, entries=T * A_COLUMN)


if __name__ == "__main__":
    main()
