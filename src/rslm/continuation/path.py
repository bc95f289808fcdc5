"""The continuation path of a problem, composed of the paths of its parts."""

from __future__ import annotations

from dataclasses import replace

from rslm.continuation.growing_c import free_stages
from rslm.continuation.rounding import rounded_stages, without_kinks
from rslm.continuation.smoothing import narrowing_stages, smoothed
from rslm.continuation.softening import bounded_stages, soft
from rslm.continuation.stage import Stage, Stages
from rslm.inner.choose import has_solver
from rslm.problem import Problem
from rslm.structures import Free


def stages(problem: Problem, rank: int, from_data: bool) -> Stages:
    """The path to a problem: the path of its loss (smaller C first, if it is quadratic) within that of its structure.

    The end of each stage, a `Reached`, is sent to the generator. `from_data` says that no start is given.
    """
    if problem.structure.form == "linear":
        return narrowing_stages(rounded_stages(problem, from_data), from_data)
    if problem.structure.form == "bounds":
        return bounded_stages(problem, free_stages(replace(problem, structure=Free()), rank, from_data), from_data)
    return free_stages(problem, rank, from_data)


def stand_in(problem: Problem) -> Stage:
    """The problem relaxed just enough to be evaluated at any point, for a solver that has to end early."""
    stage = Stage(problem)
    if problem.structure.form == "linear":
        return smoothed(without_kinks(stage))
    if problem.structure.box is not None:
        return soft(without_kinks(stage), problem.structure.box)
    return stage if has_solver(problem) else without_kinks(stage)
