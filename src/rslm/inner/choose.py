"""Chooses the inner solver for a problem."""

from __future__ import annotations

from rslm.inner.base import InnerSolver
from rslm.inner.entries.active_set import ActiveSet
from rslm.inner.entries.coordinate_descent import CoordinateDescent
from rslm.inner.entries.newton import Newton
from rslm.inner.entries.ridge import Ridge
from rslm.inner.features.features import Features
from rslm.inner.features.task_ridge import TaskRidge
from rslm.inner.generic import Generic
from rslm.inner.linear.smoothed_linear import SmoothedLinear
from rslm.inner.located import Located
from rslm.problem import Problem

#: The first one without an obstacle is used: specialised solvers come first, the generic one last.
CANDIDATES: tuple[type[InnerSolver], ...] = (
    Ridge,
    CoordinateDescent,
    Newton,
    ActiveSet,
    SmoothedLinear,
    TaskRidge,
    Features,
    Generic,
)


def chosen(problem: Problem) -> type[InnerSolver] | None:
    """The first solver that can solve the problem; None if there is none, or if the data are in other processes."""
    return next((c for c in CANDIDATES if problem.data.at_hand and c.obstacle(problem.extended) is None), None)


def has_solver(problem: Problem) -> bool:
    """Whether the problem can be solved as it is, without rounding, softening or smoothing."""
    return not problem.data.at_hand or chosen(problem) is not None


def choose(problem: Problem, n_threads: int) -> InnerSolver:
    """The first solver that can solve the problem; if none can, the error says why for every candidate."""
    remote: InnerSolver | None = problem.data.remote_solver(problem)
    if remote is not None:
        return remote
    if (candidate := chosen(problem)) is not None:
        solver = candidate(problem.extended, n_threads)
        return solver if problem.location is None else Located(problem, solver, n_threads)
    obstacles = "; ".join(f"{c.__name__}: {c.obstacle(problem)}" for c in CANDIDATES)
    raise ValueError(f"no inner solver fits this problem. {obstacles}")
