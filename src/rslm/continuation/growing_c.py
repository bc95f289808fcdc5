"""Where C is large, the solver warm-starts from smaller C; and the path of a problem, composed of those of its parts.

With growing C the ridge 1/2C of the inner problems falls below X_tᵀX_t, and g becomes a narrow curved valley in those
columns of U that a lower rank would not need. From the solution for a smaller C, where they are already gone, the way
is short: noise-free 80 × 120 data of rank 3 with a limit of 5 and C = 1e7 take 56 iterations instead of over 1000.
"""

from __future__ import annotations

from dataclasses import replace

from rslm.continuation.rounding import Stage, Stages, advance, rounded_stages
from rslm.continuation.smoothing import narrowing_stages
from rslm.continuation.softening import bounded_stages
from rslm.problem import Problem
from rslm.structures import LinearStructure, Smooth

HARD = 1e3  # the ratio of X_tᵀX_t to the ridge from which on a start at a smaller C pays
STEP = 10.0  # from one C to the next
ENOUGH = 1e-2  # relative gradient at which to go on to the next problem on the way


def stages(problem: Problem, rank: int, from_data: bool) -> Stages:
    """All problems on the way to this one; quadratic ones are reached from smaller C, unless a start is given."""
    if isinstance(problem.structure, Smooth | None):
        return free_stages(problem, rank, from_data)
    if isinstance(problem.structure, LinearStructure):
        return narrowing_stages(problem, rounded_stages(problem, from_data), from_data)
    return bounded_stages(problem, free_stages(replace(problem, structure=None), rank, from_data), from_data)


def free_stages(problem: Problem, rank: int, from_data: bool) -> Stages:
    """The way to a problem without bounds."""
    way = rounded_stages(problem, from_data)
    stage: Stage | None = next(way)
    while stage is not None:
        if from_data and stage.problem.loss.quadratic:
            for easier in easier_problems(stage.problem, rank):
                yield Stage(easier)
        reached = yield stage
        stage = advance(way, reached)


def ratio_to_ridge(problem: Problem, rank: int) -> float:
    """How far the average X_tᵀX_t is above the ridge, for U of norm 1 with rows and columns of equal size."""
    d, T = problem.shape
    return 2.0 * problem.C * len(problem.data) / (d * T * rank)


def easier_problems(problem: Problem, rank: int) -> list[Problem]:
    """The same problem with smaller C, the smallest first; none where C is moderate."""
    easier: list[Problem] = []
    while ratio_to_ridge(problem, rank) > HARD:
        problem = replace(problem, C=problem.C / STEP)
        easier.insert(0, problem)
    return easier
