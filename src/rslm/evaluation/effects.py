"""Location without W: mean, row effects and column effects alone, by Newton's method with conjugate gradients.

It is where solvers start, and what every answer is compared with. With U = 0 the inner solution is V = 0 and the best
column effects, so the objective at U = 0 is a convex function of row effects, mean and coefficients of covariates, and
it is evaluated as in a fit: the observations may be on disk or in other processes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rslm.evaluation.objective import Evaluation, Objective
from rslm.linalg.conjugate_gradients import conjugate_gradients
from rslm.location import Effects
from rslm.losses.checked import usual_size
from rslm.problem import Problem
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats
from rslm.structures import Free

MOST_STEPS, MOST_PRODUCTS = 50, 500
ENOUGH = 1e-18  # Newton decrement relative to the objective
EXACT = 1e-10  # relative residual of a system
ROUNDED = 1e-3  # width of rounded kinks relative to the targets
SAMPLE = 100_000
LEAST = 1e-10  # least length of a step


def effects_alone(problem: Problem, n_threads: int) -> Effects:
    """The best effects where W is 0. Kinks of the loss are rounded a little; bounds are not considered."""
    loss, location = problem.loss, problem.location
    assert location is not None
    some = np.asarray(problem.data.sample(SAMPLE), dtype=np.float64)
    if not loss.smooth:
        reach = 1.0 if loss.interval is None else loss.interval.reach
        loss = loss.rounded(ROUNDED * (usual_size(some) or 1.0) / reach)
    problem = replace(problem, loss=loss, structure=Free(), row_weights=None, column_weights=None)
    objective = Objective(problem, n_threads)
    start = Effects.none(problem.shape, location.n_covariates)
    if location.mean and not loss.binary and len(some):
        start = replace(start, mean=float(np.mean(some)))
    found = objective.evaluate(objective.point(np.zeros((problem.shape[0], 1)), start))
    for _ in range(MOST_STEPS):
        raise_if_stopped()
        step = conjugate_gradients(
            found.hessian_product, -found.gradient, found.preconditioner, tol=EXACT, most=MOST_PRODUCTS
        )
        decrement = -float(np.vdot(step, found.gradient))
        moved = None if not decrement > ENOUGH * abs(found.value) else _moved(objective, found, step, decrement)
        if moved is None:
            break
        found.release()
        found = moved
    effects = found.effects
    assert effects is not None
    found.release()
    return effects


def _moved(objective: Objective, at: Evaluation, step: Floats, decrement: float) -> Evaluation | None:
    """The evaluation after a step, or a part of it; None if no part is short enough, because of rounding errors."""
    length = 1.0
    while length > LEAST:
        trial = objective.evaluate(at.point + length * step)
        if trial.value <= at.value - 1e-4 * length * decrement + 1e-14 * abs(at.value):
            return trial
        trial.release()
        length *= 0.5
    return None
