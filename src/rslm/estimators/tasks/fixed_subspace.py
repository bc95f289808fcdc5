"""Effects and V for a fixed U: a convex problem, solved by Newton's method with conjugate gradients."""

from __future__ import annotations

import numpy as np

from rslm.evaluation.objective import Evaluation, Objective
from rslm.linalg.conjugate_gradients import conjugate_gradients
from rslm.location import Effects
from rslm.problem import Problem
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats

MOST_STEPS, MOST_PRODUCTS, MOST_HALVES = 30, 200, 30
ROUGH = 1e-2  # relative residual of a system
DESCENT = 1e-4  # least decrease of a step, relative to the decrease that the slope predicts


def solve_effects(problem: Problem, U: Floats, n_threads: int, tol: float, start: Effects | None = None) -> Evaluation:
    """The evaluation at U with the best effects; steps end where they lower the objective by `tol`² of it."""
    objective = Objective(problem, n_threads)
    if objective.packing is None:
        return objective.evaluate(U)
    x = objective.packing.packed(U, start)
    found = objective.evaluate(x)
    for _ in range(MOST_STEPS):
        raise_if_stopped()
        descent = -found.gradient[:, -1]

        def whole(v: Floats, shape: tuple[int, ...] = x.shape) -> Floats:
            out = np.zeros(shape)
            out[:, -1] = v
            return out

        step = conjugate_gradients(
            lambda v, e=found: e.hessian_product(whole(v))[:, -1],  # type: ignore[misc]
            descent,
            lambda v, e=found: e.preconditioner(whole(v))[:, -1],  # type: ignore[misc]
            tol=min(tol, ROUGH),
            most=MOST_PRODUCTS,
        )
        decrement = float(step @ descent)
        if not decrement > tol**2 * abs(found.value):
            break
        length, trial = 1.0, None
        for _ in range(MOST_HALVES):
            trial = objective.evaluate(x + length * whole(step))
            if trial.value <= found.value - DESCENT * length * decrement:
                break
            length *= 0.5
        else:
            break
        assert trial is not None
        x, found = x + length * whole(step), trial
    return found
