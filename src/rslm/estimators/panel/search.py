"""C by cross-validation over control entries, in blocks that look like the treated one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rslm.estimators.panel.blocks import held_out_blocks
from rslm.estimators.panel.panel import Panel
from rslm.estimators.panel.spectral import Shrunk
from rslm.estimators.panel.stack import fit_stack
from rslm.estimators.panel.two_way import TwoWay
from rslm.kernels import Stopped
from rslm.runtime.types import Floats

Tell = Callable[[str], bool]  # reports what was done; whether the fit has to stop

FOLDS = 5
LEAST, FACTOR, MOST = 1.0 / 64.0, 2.0, 24  # the first C leaves 3 % of a single factor; growth; number of values
WORSE = 2  # values of C after the best one, after which larger ones are not tried
ROUGH = 1e-3  # relative gap of the fits of a search; errors that differ by less are equal, and the least C is taken


@dataclass(frozen=True, eq=False)
class FoundC:
    """What a search has found."""

    C: float
    path: dict[str, Floats]  #: C and error, the RMSE of held-out outcomes
    held_out: dict[str, float]  #: RMSE of effects alone, and of the best C


def search_C(panel: Panel, rng: np.random.Generator, n_threads: int, tell: Tell) -> FoundC:
    """The C whose counterfactual predicts held-out control outcomes best; the best so far if the fit is stopped."""
    held = held_out_blocks(panel, FOLDS, rng)
    if not len(held):
        raise ValueError(
            "C='auto' needs untreated outcomes in the periods of treatment that can be held out, and there are too "
            "few; give a C"
        )
    Y, observed = np.repeat(panel.outcomes[None], len(held), axis=0), panel.control & ~held
    known: dict[str, Any] = {"covariates": panel.covariates, "tol": ROUGH, "n_threads": n_threads}

    def rmse(predicted: Floats) -> float:
        return float(np.sqrt(np.mean((Y - predicted)[held] ** 2)))

    two_way = TwoWay(observed, panel.covariates)
    alone = rmse(two_way.predicted(two_way.located(np.where(observed, Y, 0.0))))
    tried: list[tuple[float, float]] = []
    W: Floats | None = None
    best, C = 0, LEAST
    while len(tried) < MOST and len(tried) - best <= WORSE:
        try:
            fitted = fit_stack(Y, observed, Shrunk(np.full(len(held), C)), W, **known)
        except Stopped:
            if tried:  # the best of them is kept
                break
            raise
        W = fitted.W
        tried.append((C, rmse(fitted.predicted)))
        enough = (1.0 + ROUGH) * min(error for _, error in tried)
        best = next(k for k, (_, error) in enumerate(tried) if error <= enough)
        if tell(f"C {C:.4g}: RMSE of held-out control outcomes {tried[-1][1]:.4g} of their spread"):
            break
        C *= FACTOR
    path = {"C": np.array([c for c, _ in tried]), "error": np.array([error for _, error in tried])}
    return FoundC(tried[best][0], path, {"effects": alone, "model": tried[best][1]})
