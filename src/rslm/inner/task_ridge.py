"""Square loss on tasks: one ridge regression a task on X_t U, which is made where it is needed and never kept.

With intercepts the features have a constant behind them, and U a row and a column for it that do not move.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rslm._typing import Floats
from rslm.inner.kronecker import kronecker_preconditioner
from rslm.kernels import Solved
from rslm.measurements import Tasks
from rslm.problem import Problem


class TaskRidge:
    """Inner solver for a quadratic loss on tasks."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        assert isinstance(problem.data, Tasks)
        self.data, self.C, self.n_threads = problem.data, problem.C, n_threads
        q = np.ones(problem.shape[1]) if problem.column_weights is None else problem.column_weights
        self.q, self.ridge = q, q / (2.0 * self.C)  # ℓ'' = 2 is left out of the systems
        self.warm: Floats | None = None  # a direct solver needs no start
        self.spare: list[Solved] = []

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        data = problem.data
        if not isinstance(data, Tasks):
            return "needs tasks"
        if not problem.loss.quadratic:
            return f"needs a quadratic loss, {problem.loss!r} is not"
        if problem.structure is not None or problem.row_weights is not None:
            return "knows of no structure, and of no weights of rows"
        return None if data.narrow else "most features are no concern of a task"

    def free(self) -> None:
        self.spare.clear()

    def without_constant(self, G: Floats) -> Floats:
        return G[:-1, :-1] if self.data.intercept else G

    def solve(self, U: Floats) -> TaskRidgeSolution:
        room = self.spare.pop() if self.spare else None
        extended = self.data.with_constant(U)
        solved = self.data.columns.evaluate_tasks(
            self.data.rows, self.data.values, extended, self.ridge, self.n_threads, room
        )
        return TaskRidgeSolution(self, extended, solved)


class TaskRidgeSolution:
    """The ridge regressions of all tasks at one U."""

    paid = 0.0

    def __init__(self, solver: TaskRidge, U: Floats, solved: Solved) -> None:
        self._solver, self._U = solver, U
        self._solved: Solved | None = solved
        self.V, self.offsets = solved.V, None
        if solver.data.intercept:
            self.V, self.offsets = np.ascontiguousarray(solved.V[:, :-1]), solved.V[:, -1]  #: over OFFSET
        square = float(np.einsum("t,tk,tk->", solver.q, solved.V, solved.V))
        self.value = solver.C * solved.squares + 0.5 * square
        self.gradient: Floats = (-2.0 * solver.C) * solver.without_constant(solved.by_rows)

    @property
    def solved(self) -> Solved:
        if self._solved is None:
            raise RuntimeError("this evaluation has been released; evaluate the point again")
        return self._solved

    def derivative(self, xi: Floats) -> Floats:
        s = self._solver
        direction = s.data.with_constant(xi, 0.0)
        moved = s.data.columns.derivative_tasks(s.data.rows, self.solved, self._U, direction, s.n_threads)
        return (2.0 * s.C) * s.without_constant(moved)

    def preconditioner(self) -> Callable[[Floats], Floats]:
        data = self._solver.data
        return kronecker_preconditioner(data.features, data.columns, 2.0 * self._solver.C, self.V, self.V)

    def dual(self) -> Floats:
        return (2.0 * self._solver.C) * self.solved.residual

    def multipliers(self) -> None:
        return None

    def release(self) -> None:
        if self._solved is not None:
            self._solver.spare.append(self._solved)
            self._solved = None
