"""RSLM: the trace norm problem of tasks at a fixed rank, by the trust-region solver of rslm.

    minimise over W of rank at most r, and b   C Σ (y_i − x_i·w_t − b_t)² + ½ ‖W‖_*²

Jawanpuria, Mishra: Structured low-rank matrix learning: algorithms and applications (section on multi-task feature
learning). Their tasks have no intercepts; here every task has its own, not penalised, as in MTFL.
"""

from __future__ import annotations

from dataclasses import dataclass

from rslm import MultiTaskRegressor
from rslm.runtime.types import Floats, Indices64

NAME = "RSLM"
TRADES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  #: values of C to choose from


@dataclass(frozen=True)
class Fit:
    W: Floats  #: (T, d)
    b: Floats
    gap: float  #: relative duality gap: a bound on the distance to the problem without a limit on the rank


def fit(X: Floats, y: Floats, tasks: Indices64, rank: int, C: float) -> Fit:
    model = MultiTaskRegressor(rank, C, effects=None, random_state=0, n_threads=1).fit(X, y, tasks=tasks)
    assert model.certificate_ is not None
    return Fit(model.coef_, model.intercept_, float(model.certificate_.relative_gap))
