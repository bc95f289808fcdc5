"""Tasks: the rows of F = X U take the place of the rows of U, and any solver for entries does the rest.

    g(U) = h(X U),    ∇g = Xᵀ ∇h,    D∇g[ξ] = Xᵀ D∇h[X ξ]

With intercepts F has one column more, which is constant, and V too: its last column belongs to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rslm._typing import Floats
from rslm.inner.base import InnerSolution, InnerSolver
from rslm.inner.coordinate_descent import CoordinateDescent
from rslm.inner.newton import Newton
from rslm.inner.ridge import Ridge
from rslm.measurements import Entries, Tasks
from rslm.problem import Problem

SOLVERS: tuple[type[InnerSolver], ...] = (Ridge, CoordinateDescent, Newton)
MANY = 2000  # features from which on the preconditioner knows only the diagonal of XᵀX


class Features:
    """Inner solver for tasks, with any loss that a solver for entries knows."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        assert isinstance(problem.data, Tasks)
        self.data, self.C = problem.data, problem.C
        entries = Entries.of_columns(problem.data.columns, problem.data.values)
        self.of_rows = replace(problem, data=entries)
        chosen = next(s for s in SOLVERS if s.obstacle(self.of_rows) is None)
        self._solver = chosen(self.of_rows, n_threads)
        self._spectrum: tuple[Any, Floats] | None = None

    @property
    def warm(self) -> Any:
        return self._solver.warm

    @warm.setter
    def warm(self, value: Any) -> None:
        self._solver.warm = value

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        if not isinstance(problem.data, Tasks):
            return "needs tasks"
        if problem.structure is not None:
            return f"knows of no structure, the problem has {problem.structure!r}"
        if problem.row_weights is not None:
            return "knows of no weights of rows"
        return None

    def free(self) -> None:
        self._solver.free()

    def solve(self, U: Floats) -> FeaturesSolution:
        return FeaturesSolution(self, U, self._solver.solve(self.data.lift(U)))

    @property
    def spectrum(self) -> tuple[Any, Floats]:
        """Eigenvectors and eigenvalues of XᵀX for an average task; the diagonal alone where there are many features."""
        if self._spectrum is None:
            d, T = self.data.shape
            share = len(self.data) / (self.data.columns.shape[0] * T)  # of all rows, that a task sees
            if d > MANY:
                self._spectrum = None, share * self.data.squares_of_features()
            else:
                values, vectors = np.linalg.eigh(self.data.gram_of_features())
                self._spectrum = vectors, share * np.maximum(values, 0.0)
        return self._spectrum


class FeaturesSolution:
    """A solution for the rows of F, seen from U."""

    paid = 0.0

    def __init__(self, solver: Features, U: Floats, of_rows: InnerSolution) -> None:
        self._solver, self._of_rows = solver, of_rows
        r = U.shape[1]
        self.value = of_rows.value
        self.V = np.ascontiguousarray(of_rows.V[:, :r])
        self.offsets = of_rows.V[:, r] if solver.data.intercept else None  #: intercepts over OFFSET
        self.gradient = solver.data.lower(of_rows.gradient)

    def derivative(self, xi: Floats) -> Floats:
        data = self._solver.data
        return data.lower(self._of_rows.derivative(data.lift(xi, direction=True)))

    def preconditioner(self) -> Callable[[Floats], Floats]:
        """B = 2C (average X_tᵀX_t) ⊗ VᵀV + ‖V‖² I, solved between the eigenvectors of both."""
        vectors, values = self._solver.spectrum
        mu, R = np.linalg.eigh(self.V.T @ self.V)
        shift = max(float(np.vdot(self.V, self.V)), np.finfo(float).tiny)
        B = 2.0 * self._solver.C * np.outer(values, np.maximum(mu, 0.0)) + shift

        def solve(eta: Floats) -> Floats:
            turned = (eta if vectors is None else vectors.T @ eta) @ R / B
            return np.asarray((turned if vectors is None else vectors @ turned) @ R.T)

        return solve

    def dual(self) -> Floats:
        return self._of_rows.dual()

    def multipliers(self) -> None:
        return None

    def release(self) -> None:
        self._of_rows.release()
