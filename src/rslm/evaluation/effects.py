"""Location without W: mean, row effects and column effects alone, by Newton's method with conjugate gradients.

It is where solvers start, and what every answer is compared with. With U = 0 the inner solution is V = 0 and the best
column effects, so the objective at U = 0 is a convex function of row effects, mean and coefficients of covariates, and
it is evaluated as in a fit: the observations may be on disk or in other processes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rslm.evaluation.data_term import residual_duals
from rslm.evaluation.objective import Evaluation, Objective
from rslm.kernels import Columns
from rslm.linalg.conjugate_gradients import conjugate_gradients
from rslm.location import Effects
from rslm.losses import Loss
from rslm.losses.checked import usual_size
from rslm.problem import Problem
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats
from rslm.structures import Free

__all__ = ["effects_alone", "of_unobserved", "residual_duals"]

MOST_STEPS, MOST_PRODUCTS = 50, 500
MOST_ROUGH_STEPS, MOST_ROUGH_PRODUCTS = 8, 20  # if kinks are rounded: the effects are only a start and a baseline
# Newton decrement, relative to the objective, at which to stop; ROUGH if kinks are rounded, which changes it by more.
ENOUGH, ROUGH = 1e-14, 1e-5
EXACT = 1e-4  # relative residual of a system
ROUNDED = (1.0, 0.1, 0.03)  # widths of rounded kinks, in units of the spread of the targets, one after the other
SAMPLE = 100_000
LITTLE, MUCH = 1e-9, 1e9  # damping of the Hessian relative to the objective; effects are in units of their spread
ENOUGH_OF_STEP = 1e-4  # least decrease, relative to that which the slope promises
ROUNDING = 1e-14  # rounding errors of the objective, relative to it


def effects_alone(problem: Problem, n_threads: int) -> Effects:
    """The best effects where W is 0. Kinks of the loss are rounded a little; bounds are not considered."""
    loss, location = problem.loss, problem.location
    assert location is not None
    some = np.asarray(problem.data.sample(SAMPLE), dtype=np.float64)
    effects = Effects.none(problem.shape, location.n_covariates)
    if not loss.binary and len(some):
        mean = float(np.mean(some))
        if location.mean:
            effects = replace(effects, mean=mean)
        elif location.rows is not None and location.columns != 0.0 and "entries" in problem.data.traits:
            effects = replace(effects, rows=np.full(problem.shape[0], mean))
    problem = replace(problem, structure=Free(), row_weights=None, column_weights=None)
    with np.errstate(over="ignore", invalid="ignore"):
        for rounded in _rounded(loss, usual_size(some) or 1.0, location.spread or 1.0):
            enough = ENOUGH if rounded is loss else ROUGH
            effects = _best(Objective(replace(problem, loss=rounded), n_threads), effects, enough)
    return effects


def _rounded(loss: Loss, usual: float, spread: float) -> list[Loss]:
    """The loss, with kinks rounded less and less: far from kinks it has no curvature, and Newton's method no step."""
    if loss.interval is None or loss.interval.reach == np.inf:
        return [loss if loss.smooth else loss.rounded(ROUNDED[-1] * spread)]
    own = loss.interval.rounding
    wide = [usual] if usual > spread else []  # the start may be 0
    widths = [width / loss.interval.reach for width in (*wide, *(part * spread for part in ROUNDED))]
    return [*(loss.rounded(width - own) for width in widths if width > own), *([loss] if loss.smooth else [])]


def _best(objective: Objective, effects: Effects, enough: float) -> Effects:
    """The best effects for a smooth loss, from a start, to a Newton decrement of `enough` times the objective."""
    found = objective.evaluate(objective.point(np.zeros((objective.problem.shape[0], 1)), effects))
    damping = LITTLE
    steps, products = (MOST_STEPS, MOST_PRODUCTS) if enough < ROUGH else (MOST_ROUGH_STEPS, MOST_ROUGH_PRODUCTS)
    for _ in range(steps):
        raise_if_stopped()
        step, decrement = _newton_step(found, damping * abs(found.value), max(EXACT, np.sqrt(enough)), products)
        if not decrement > enough * abs(found.value):
            break
        trial = objective.evaluate(found.point + step)
        better = trial.value <= found.value - ENOUGH_OF_STEP * decrement + ROUNDING * abs(found.value)
        worse, found = (found, trial) if better else (trial, found)
        worse.release()
        damping = max(damping / 10.0, LITTLE) if better else 100.0 * damping
        if damping > MUCH:  # rounding errors
            break
    best = found.effects
    assert best is not None
    found.release()
    return best


def _newton_step(at: Evaluation, damping: float, tol: float, products: int) -> tuple[Floats, float]:
    """The step of Newton's method with a damped Hessian, and the decrease that its slope promises."""

    def product(x: Floats) -> Floats:
        return np.asarray(at.hessian_product(x) + damping * x)

    step = conjugate_gradients(product, -at.gradient, at.preconditioner, tol=tol, most=products)
    return step, -float(np.vdot(step, at.gradient))


def of_unobserved(problem: Problem, effects: Effects) -> Effects:
    """The same effects, where rows and columns without observations have the mean of the others.

    Only effects without penalty: no observation determines them, and they include the mean of all data. With bounds,
    which hold for all entries, they are determined.
    """
    location = problem.location
    if location is None or problem.structure.box is not None or not problem.data.at_hand:
        return effects
    found = {"rows": effects.rows, "columns": effects.columns}
    for side, (name, ridge) in enumerate((("rows", location.rows), ("columns", location.columns))):
        if ridge != 0.0 or (side == 0 and "entries" not in problem.data.traits):
            continue
        seen = _seen(problem, side)
        found[name] = np.where(seen, found[name], found[name][seen].mean())
    return replace(effects, rows=found["rows"], columns=found["columns"])


def _seen(problem: Problem, side: int) -> NDArray[np.bool_]:
    """Which rows (`side` 0) or columns (1) have observations, without an array as long as the data."""
    columns: Columns | None = getattr(problem.data, "columns", None)
    if columns is None:
        return np.bincount(problem.data.groups(side), minlength=problem.shape[side]) > 0
    if side == 1:
        return np.diff(columns.indptr) > 0
    seen = np.zeros(problem.shape[0], dtype=bool)
    for first, last in columns.blocks():
        seen[columns.index[columns.indptr[first] : columns.indptr[last]]] = True
    return seen
