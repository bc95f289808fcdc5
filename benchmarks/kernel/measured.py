"""The kernels that are measured: how each is called, what it costs, and which rows it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from kernel.costs import Cost, Size
from rslm.kernels import Columns
from rslm.runtime.types import Floats

EVALUATION = "evaluation"


@dataclass(frozen=True)
class Kernel:
    """One line of the table."""

    call: Callable[[], object]
    cost: Cost
    single: bool
    pattern: Columns  #: whose entries name the rows that are read


def kernels(columns: Columns, value: Floats, U: Floats, C: float, threads: int) -> dict[str, Kernel]:
    """Evaluation and Hessian product in double and in single precision, and the preconditioner; any instruction set."""
    (d, T), rank = columns.shape, U.shape[1]
    ridge, ones = np.full(T, 0.5 / C), np.ones(d)
    dU = np.random.default_rng(2).standard_normal(U.shape)
    size = Size(columns.entries, d, T, rank)
    found: dict[str, Kernel] = {}
    for single in (False, True):
        y: Floats = value.astype(np.float32 if single else np.float64)
        solved = columns.evaluate(y, U, ridge, threads, single=single)
        evaluate = partial(columns.evaluate, y, U, ridge, threads, solved, single=single)
        product = partial(columns.derivative, solved, U, dU, threads, single=single)
        suffix = " single" if single else ""
        found[EVALUATION + suffix] = Kernel(evaluate, size.evaluation(single), single, columns)
        found["Hessian product" + suffix] = Kernel(product, size.hessian_product(single), single, columns)
    by_rows = columns.by_rows
    factors = by_rows.factorise(solved.V, ones, threads)
    factorise = partial(by_rows.factorise, solved.V, ones, threads, scratch=factors)
    found["preconditioner"] = Kernel(factorise, size.preconditioner(), False, by_rows)
    return found
