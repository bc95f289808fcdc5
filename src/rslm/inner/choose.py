"""Chooses the inner solver for a problem."""

from __future__ import annotations

from rslm.inner.base import InnerSolver
from rslm.inner.entries.active_set import ActiveSet
from rslm.inner.entries.all_entries import AllEntriesRidge
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
    AllEntriesRidge,
    CoordinateDescent,
    Newton,
    ActiveSet,
    SmoothedLinear,
    TaskRidge,
    Features,
    Generic,
)


def chosen(problem: Problem) -> type[InnerSolver] | None:
    """The first solver that can solve the problem, here or in other processes; None if there is none."""
    extended = problem.extended
    return next((c for c in CANDIDATES if c.obstacle(extended) is None), None)


def has_solver(problem: Problem) -> bool:
    """Whether the problem can be solved as it is, without rounding, softening or smoothing."""
    return chosen(problem) is not None


def choose(problem: Problem, n_threads: int) -> InnerSolver:
    """The first solver that can solve the problem; if none can, the error says why for every candidate."""
    remote: InnerSolver | None = problem.data.remote_solver(problem)
    solver = extended_solver(problem, n_threads) if remote is None else remote
    return solver if problem.location is None else Located(problem, solver, n_threads)


def extended_solver(problem: Problem, n_threads: int) -> InnerSolver:
    """The same for `Problem.extended`, whose points are [U, a, b + μ a] where there is a location."""
    if (candidate := chosen(problem)) is not None:
        return candidate(problem.extended, n_threads)
    obstacles = "; ".join(f"{c.__name__}: {c.obstacle(problem)}" for c in CANDIDATES)
    raise ValueError(f"no inner solver fits this problem. {obstacles}")
