"""Square loss on observed entries, and zeros of weight α₀ at all entries: one ridge regression per column.

With x_i = u_i/√p_i for row i, column t has the system

    (X_tᵀ Ω_t X_t + α₀ XᵀX + q_t/2C) v_t = X_tᵀ Ω_t y_t,

where XᵀX is the same for all columns. In the basis of its eigenvectors it is a diagonal, so that the zeros become a
ridge of every coordinate, which the kernels support. There, with s = ω (y − X v) at the observed entries,

    g = C Σ s (y − X v) + C α₀ tr(XᵀX VᵀV) + ½ Σ_t q_t |v_t|²,     S = scatter(2C s) − 2C α₀ X Vᵀ,
    ∇g = −S V with rows scaled by 1/√p_i.

S is sparse plus low rank: all cost O((d + T) r²) more than the observed entries alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rslm.inner.base import InnerSolution
from rslm.inner.entries.weighted import WeightedColumns
from rslm.kernels import Solved, Systems
from rslm.kernels.scratch import scratch_like
from rslm.problem import Problem
from rslm.runtime.types import Floats


class AllEntriesRidge(WeightedColumns):
    """Inner solver for the square loss with zeros at all entries."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        super().__init__(problem, n_threads)
        self.background = problem.data.background
        self.unit = 2.0 * self.C  # the systems are divided by ℓ'' = 2
        self.ridge = self.q / self.unit
        self.spare_factors: list[Systems] = []

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        if "all entries" in problem.data.traits:  # `AllEntries` refuses other losses, structures and locations
            return None
        return f"needs zeros at all entries, the problem has {problem.data!r}"

    def gains_in_derivatives(self, width: int) -> bool:
        """Solutions themselves are hardly faster in single precision at the ranks that implicit feedback needs."""
        return self.suits_single(width)

    def free(self) -> None:
        super().free()
        self.spare_factors.clear()

    def solve(self, U: Floats) -> AllEntriesSolution:
        scratch = self.spare.pop() if self.spare else None
        X, eigenvalues, basis = turned(self.scaled(U))
        ridges = self.ridge[:, None] + self.background * eigenvalues
        solved = self.columns.evaluate(self.y, X, ridges, self.n_threads, scratch, weight=self.weights)
        return AllEntriesSolution(self, X, basis, solved)


class AllEntriesSolution(InnerSolution):
    """The ridge regressions of all columns at one U, in the `basis` in which XᵀX is diagonal."""

    def __init__(self, solver: AllEntriesRidge, X: Floats, basis: Floats, solved: Solved) -> None:
        self._solver, self._X, self._basis = solver, X, basis
        self._solved: Solved | None = solved
        self._row_factors: Systems | None = None
        self.V = solved.V @ basis.T
        self._gram: Floats = solved.V.T @ solved.V
        self.weighted_square = solver.tail.square(solver.q, solved.V)  # ‖UᵀS‖²
        of_zeros = solver.background * float(np.vdot(X.T @ X, self._gram))
        self.value = solver.C * (solved.squares + of_zeros) + 0.5 * self.weighted_square
        sums = solved.by_rows - solver.background * (X @ self._gram)
        self.gradient: Floats = solver.of_rows(sums @ basis.T, -2.0 * solver.C)

    @property
    def solved(self) -> Solved:
        if self._solved is None:
            raise RuntimeError("this evaluation has been released; evaluate the point again")
        return self._solved

    def derivative(self, xi: Floats) -> Floats:
        solver, solved, X = self._solver, self.solved, self._X
        dX = solver.scaled(xi) @ self._basis
        cross = dX.T @ X
        dV = -solver.background * (solved.V @ (cross + cross.T))
        parts = X, solved.V, solved.factors, dX
        moved = solver.columns.weighted_derivative(
            solved.residual, solver.weights, *parts, solver.n_threads, dV, single=self.rough
        )
        cross = dV.T @ solved.V
        moved += solver.background * (dX @ self._gram + X @ (cross + cross.T))
        return solver.of_rows(moved @ self._basis.T, 2.0 * solver.C)

    def preconditioner(self) -> Callable[[Floats], Floats]:
        """Row i is solved with B_i = (2C/p_i) (Σ_t ω v_t v_tᵀ + α₀ VᵀV) + ‖UᵀS‖² I."""
        solver, _ = self._solver, self.solved  # raises an error if it has been released
        V, eigenvalues, basis = turned(self.V)
        if self._row_factors is None:
            scratch = solver.spare_factors.pop() if solver.spare_factors else None
            ridges = solver.row_ridges(max(self.weighted_square, np.finfo(float).tiny), V.shape[1])
            ridges = ridges[:, None] + solver.background * eigenvalues
            self._row_factors = solver.columns.by_rows.systems(
                V, ridges, solver.n_threads, solver.weights_by_rows, scratch
            )
        solved_rows = solver.solved_rows(self._row_factors)
        return lambda eta: np.asarray(solved_rows(eta @ basis) @ basis.T)

    def row_curvature(self, typical: float | None = None, bounds: bool = True) -> tuple[Floats, float]:
        """(2C/p_i) (Σ_t ω v_t v_tᵀ + α₀ VᵀV) of every row, and ‖UᵀS‖²."""
        solver, _ = self._solver, self.solved  # raises an error if it has been released
        grams = solver.columns.by_rows.grams(self.V, solver.n_threads, solver.weights_by_rows)
        grams += solver.background * (self.V.T @ self.V)
        return solver.blocks_of_rows(grams), self.weighted_square

    def dual(self) -> Floats:
        """2C s of the observed entries, without the part of the zeros."""
        residual = self.solved.residual
        dual: Floats = np.multiply(residual, 2.0 * self._solver.C, out=scratch_like(residual))
        return dual

    def release(self) -> None:
        if self._solved is not None:
            self._solver.spare.append(self._solved)
            self._solved = None
        if self._row_factors is not None:
            self._solver.spare_factors.append(self._row_factors)
            self._row_factors = None


def turned(X: Floats) -> tuple[Floats, Floats, Floats]:
    """X in the basis of the eigenvectors of XᵀX, the eigenvalues, and the basis."""
    gram = X.T @ X
    if not np.isfinite(gram).all():  # squares overflow; the solver will report it
        return X, np.full(X.shape[1], np.inf), np.eye(X.shape[1])
    values, basis = np.linalg.eigh(gram)
    return X @ basis, np.maximum(values, 0.0), basis
