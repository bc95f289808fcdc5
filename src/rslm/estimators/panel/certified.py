"""The certified fit of a panel's untreated entries: the problem, its start from a quick fit, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rslm.estimators.panel.panel import Panel
from rslm.estimators.panel.spectral import Shrunk
from rslm.estimators.panel.stack import EVERY, Fitted, fit_stack
from rslm.kernels import Stopped
from rslm.location import Effects, Location
from rslm.location.packing import Packing
from rslm.losses import Square
from rslm.measurements import Entries
from rslm.problem import Problem
from rslm.runtime.interrupts import Interrupt
from rslm.runtime.types import Floats
from rslm.solvers import Result

NEGLIGIBLE = 1e-7  # singular values this small relative to the largest one are 0


@dataclass(frozen=True, eq=False)
class Start:
    """Where the solver begins."""

    rank: int
    point: Floats | None  #: None if W is 0


def problem_of(panel: Panel, C: float) -> Problem:
    """Entries without treatment, effects and covariates without penalty."""
    data = Entries(np.where(panel.control, panel.outcomes, np.nan))
    covariates = None if panel.covariates is None else panel.covariates[:, *data.places()].T
    return Problem(Square(), data, C=C, location=Location(rows=0.0, columns=0.0, covariates=covariates))


def quick_fit(panel: Panel, C: float, tol: float) -> Fitted:
    """The solution to this gap; a few steps towards it if the fit has been stopped."""
    known: dict[str, Any] = {"covariates": panel.covariates, "tol": tol}
    given = panel.outcomes[None], panel.control[None], Shrunk(np.array([C]))
    try:
        return fit_stack(*given, **known)
    except Stopped:
        return fit_stack(*given, **known, most_steps=EVERY, interrupt=Interrupt())


def start_of(problem: Problem, quick: Fitted) -> Start:
    """The point of a quick fit; its rank is that of the solution."""
    u, s, _ = np.linalg.svd(quick.W[0], full_matrices=False)
    rank = max(int((s > NEGLIGIBLE * s[0]).sum()), 1)
    if s[0] == 0.0:
        return Start(rank, None)
    located = quick.located
    effects = Effects(0.0, located.units[0], located.periods[0], located.coefficients[0])
    return Start(rank, Packing.of(problem).packed(u[:, :rank] * np.sqrt(s[:rank] / s[:rank].sum()), effects))


def fitted_of(panel: Panel, result: Result) -> Fitted:
    """The answer of the solver as that of a stack of one panel."""
    assert result.effects is not None
    W, effects = result.U @ result.V.T, result.effects
    predicted = W + effects.rows[:, None] + effects.columns + effects.mean
    if panel.covariates is not None:
        predicted = predicted + np.tensordot(effects.coefficients, panel.covariates, axes=1)
    located = effects.rows[None] + effects.mean, effects.columns[None], effects.coefficients[None]
    return Fitted.of_one(W, located, predicted)
