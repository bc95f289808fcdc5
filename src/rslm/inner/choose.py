"""Which inner solver fits a problem."""

from __future__ import annotations

from rslm.inner.active_set import ActiveSet
from rslm.inner.base import InnerSolver
from rslm.inner.coordinate_descent import CoordinateDescent
from rslm.inner.features import Features
from rslm.inner.generic import Generic
from rslm.inner.newton import Newton
from rslm.inner.ridge import Ridge
from rslm.inner.smoothed_linear import SmoothedLinear
from rslm.inner.task_ridge import TaskRidge
from rslm.measurements.remote import Elsewhere
from rslm.problem import Problem

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


def has_solver(problem: Problem) -> bool:
    """Whether the problem can be solved as it is; with kinks of the loss, not all can."""
    return isinstance(problem.data, Elsewhere) or any(c.obstacle(problem) is None for c in CANDIDATES)


def choose(problem: Problem, n_threads: int) -> InnerSolver:
    """Return the first solver that can solve the problem; the error says for every candidate why it cannot."""
    if isinstance(problem.data, Elsewhere):
        solver: InnerSolver = problem.data.solver(problem)
        return solver
    obstacles = []
    for candidate in CANDIDATES:
        obstacle = candidate.obstacle(problem)
        if obstacle is None:
            return candidate(problem, n_threads)
        obstacles.append(f"{candidate.__name__}: {obstacle}")
    raise ValueError("no inner solver fits this problem. " + "; ".join(obstacles))
