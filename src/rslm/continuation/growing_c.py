"""Where C is large, the solver warm-starts from smaller C.

As C grows, the ridge 1/2C of the inner problems falls below X_tᵀX_t, and g becomes a narrow curved valley in those
columns of U that a lower rank would not need. The solution for a smaller C, where these columns are already zero, is a
good warm start: noise-free 80 × 120 data of rank 3 with a limit of 5 and C = 1e7 take 56 iterations instead of over
1000.
"""

from __future__ import annotations

from dataclasses import replace

from rslm.continuation.rounding import rounded_stages
from rslm.continuation.stage import Stage, Stages, advance
from rslm.problem import Problem

HARD = 1e3  # the ratio of X_tᵀX_t to the ridge above which a warm start from a smaller C pays
STEP = 10.0  # factor from one C to the next
ENOUGH = 1e-2  # relative gradient at which a stage before the last one ends


def free_stages(problem: Problem, rank: int, from_data: bool) -> Stages:
    """The path to a problem whose structure is not relaxed; `from_data` says that no start is given."""
    path = rounded_stages(problem, from_data)
    stage: Stage | None = next(path)
    while stage is not None:
        if from_data and stage.problem.loss.quadratic:
            for easier in easier_problems(stage.problem, rank):
                factor = (stage.amount("C") or 1.0) * stage.problem.C / easier.C
                yield replace(stage, last=False, sharp=False).relaxed("C", factor, easier)
        reached = yield stage
        stage = advance(path, reached)


def ratio_to_ridge(problem: Problem, rank: int) -> float:
    """The ratio of the average X_tᵀX_t to the ridge, for U of norm 1 with rows and columns of equal size."""
    d, T = problem.shape
    return 2.0 * problem.C * len(problem.data) / (d * T * rank)


def easier_problems(problem: Problem, rank: int) -> list[Problem]:
    """The same problem with smaller C, the smallest first; an empty list if C is moderate."""
    easier: list[Problem] = []
    while ratio_to_ridge(problem, rank) > HARD:
        problem = replace(problem, C=problem.C / STEP)
        easier.insert(0, problem)
    return easier
