"""Features of the rows: F = X U takes the place of U in a solver without features, whose objective is h.

    g(U) = h(X U),    ∇g = Xᵀ ∇h,    D∇g[ξ] = Xᵀ D∇h[X ξ]

With intercepts of tasks, F has one more column, which is constant; the last column of V holds its coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from rslm.inner.base import InnerSolution, InnerSolver
from rslm.inner.entries.coordinate_descent import CoordinateDescent
from rslm.inner.entries.newton import Newton
from rslm.inner.entries.ridge import Ridge
from rslm.inner.features.coupled import Coupled, CoupledSolution
from rslm.inner.features.kronecker import kronecker_preconditioner
from rslm.inner.obstacles import has_effects, has_kinks, has_structure
from rslm.inner.tail import Tail
from rslm.measurements import Bilinear, Tasks
from rslm.problem import Problem
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats

# Newton comes before CoordinateDescent: the large constant feature of the intercepts couples all dual variables of a
# task so strongly that improving one at a time makes hardly any progress.
SOLVERS: tuple[type[InnerSolver], ...] = (Ridge, Newton, CoordinateDescent, Coupled)


class Features(InnerSolver):
    """Inner solver for tasks and for side information, with any loss that one of `SOLVERS` supports."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        self.data, self.C, self.n_threads = cast(Tasks | Bilinear, problem.data), problem.C, n_threads
        self.of_rows = replace(problem, data=self.data.of_rows())
        chosen = next(s for s in SOLVERS if s.obstacle(self.of_rows) is None)
        self._solver = chosen(self.of_rows, n_threads)

    @property
    def warm(self) -> Any:
        return self._solver.warm

    @warm.setter
    def warm(self, value: Any) -> None:
        self._solver.warm = value

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        if "features" not in problem.data.traits:
            return "needs features"
        if problem.row_weights is not None:
            return "does not support row weights"
        if "sides" in problem.data.traits:
            return Coupled.obstacle(problem)
        # Of the solvers for kinks, none supports effects or weights.
        return has_structure(problem) or (has_kinks(problem) if has_effects(problem) is not None else None)

    def free(self) -> None:
        self._solver.free()

    def solve(self, U: Floats) -> FeaturesSolution:
        F = self.data.lift(U, self.n_threads)
        self._solver.offset = self.offset
        raise_if_stopped()
        return FeaturesSolution(self, U, self._solver.solve(F))


class FeaturesSolution(InnerSolution):
    """A solution at F = X U, with derivatives by U."""

    def __init__(self, solver: Features, U: Floats, of_rows: InnerSolution) -> None:
        self._solver, self._of_rows = solver, of_rows
        self.value = of_rows.value
        self.V, self._intercepts = solver.data.parted(U, of_rows.V)
        self.gradient = solver.data.lower(of_rows.gradient, solver.n_threads)

    def intercepts(self) -> Floats | None:
        return self._intercepts

    def derivative(self, xi: Floats) -> Floats:
        data, threads = self._solver.data, self._solver.n_threads
        return data.lower(self._of_rows.derivative(data.lift(xi, threads, direction=True)), threads)

    def preconditioner(self) -> Callable[[Floats], Floats]:
        """The preconditioner of the features and, where rows have indicators too, that of the rows."""
        data, of_rows = self._solver.data, self._of_rows
        if "tasks" in data.traits:
            features = cast(Tasks, data).features
            tail = Tail.of(self._solver.of_rows)
            return kronecker_preconditioner(features, data.columns, 2.0 * self._solver.C, self.V, self.V, tail)
        of_rows, rows = cast(CoupledSolution, of_rows), cast(Bilinear, data).rows
        k = rows.features
        both: list[Callable[[Floats], Floats]] = []
        if rows.X is not None:
            curvature, G = of_rows.curvature, of_rows.G
            both.append(kronecker_preconditioner(rows.X, data.columns, curvature, G, self.V))
        if rows.own is not None:
            both.append(of_rows.preconditioner_of_rows(rows.own))
        if len(both) == 1:
            return both[0]
        return lambda eta: np.concatenate([both[0](eta[:k]), both[1](eta[k:])])

    def along_offset(self, offset: Floats) -> tuple[Floats, Floats]:
        moved, dz = self._of_rows.along_offset(offset)
        return self._solver.data.lower(moved, self._solver.n_threads), dz

    def column_curvature(self) -> Floats:
        return self._of_rows.column_curvature()

    def dual(self) -> Floats:
        return self._of_rows.dual()

    def release(self) -> None:
        self._of_rows.release()
