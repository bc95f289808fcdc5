"""Square loss on tasks: one ridge regression per task on X_t U, which is computed when needed and never stored.

Intercepts are eliminated by centring the targets and the columns of X_t U.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from rslm.inner.base import InnerSolution, InnerSolver
from rslm.inner.features.kronecker import kronecker_preconditioner
from rslm.inner.obstacles import has_structure
from rslm.inner.tail import Tail
from rslm.kernels import Solved
from rslm.measurements import Tasks
from rslm.problem import Problem
from rslm.runtime.types import Floats


class TaskRidge(InnerSolver):
    """Inner solver for a quadratic loss on tasks."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        self.data, self.C, self.n_threads = cast(Tasks, problem.data), problem.C, n_threads
        self.q = np.ones(problem.shape[1]) if problem.column_weights is None else problem.column_weights
        self.ridge = self.q / (2.0 * self.C)  # the systems are divided by ℓ'' = 2
        self.tail = Tail.of(problem)
        self.y = self.data.centred(self.data.values) if self.data.intercept else self.data.values
        self.spare: list[Solved] = []

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        if "tasks" not in problem.data.traits:
            return "needs tasks"
        if not problem.loss.quadratic:
            return f"needs a quadratic loss, {problem.loss!r} is not"
        if problem.row_weights is not None or problem.data.weighted:
            return "does not support weights"
        if problem.location is not None and problem.location.covariates is not None:
            return "does not support covariates"
        if (obstacle := has_structure(problem)) is not None:
            return obstacle
        return None if cast(Tasks, problem.data).narrow else "a task uses few of the features"

    def free(self) -> None:
        self.spare.clear()

    def solve(self, U: Floats) -> TaskRidgeSolution:
        scratch = self.spare.pop() if self.spare else None
        data, threads = self.data, self.n_threads
        ridges = self.tail.ridges(self.ridge, 2.0 * self.C, U.shape[1], data.counts, free=0.0)
        how = {"centred": data.intercept, "pinned": self.tail.pinned}
        solved = data.columns.evaluate_tasks(data.rows, self.y, U, ridges, threads, scratch, **how)
        return TaskRidgeSolution(self, U, solved)


class TaskRidgeSolution(InnerSolution):
    """The ridge regressions of all tasks at one U."""

    def __init__(self, solver: TaskRidge, U: Floats, solved: Solved) -> None:
        self._solver, self._U = solver, U
        self._solved: Solved | None = solved
        self.V = solved.V
        self.value = solver.C * solved.squares + 0.5 * solver.tail.square(solver.q, self.V) + solver.tail.cost(self.V)
        self.gradient: Floats = (-2.0 * solver.C) * solved.by_rows

    @property
    def solved(self) -> Solved:
        if self._solved is None:
            raise RuntimeError("this evaluation has been released; evaluate the point again")
        return self._solved

    def intercepts(self) -> Floats | None:
        """The mean of the targets minus the mean of the predictions, for every task."""
        data = self._solver.data
        if not data.intercept:
            return None
        return data.means(data.values) - data.means(data.predict(self._U, self.V, self._solver.n_threads))

    def derivative(self, xi: Floats) -> Floats:
        s = self._solver
        data, centred = s.data, s.data.intercept
        moved = data.columns.derivative_tasks(data.rows, self.solved, self._U, xi, s.n_threads, centred=centred)
        return (2.0 * s.C) * moved

    def preconditioner(self) -> Callable[[Floats], Floats]:
        s = self._solver
        return kronecker_preconditioner(s.data.features, s.data.columns, 2.0 * s.C, self.V, self.V, s.tail)

    def column_curvature(self) -> Floats:
        return 2.0 * self._solver.C * self._solver.data.counts

    def dual(self) -> Floats:
        return (2.0 * self._solver.C) * self.solved.residual

    def release(self) -> None:
        if self._solved is not None:
            self._solver.spare.append(self._solved)
            self._solved = None
