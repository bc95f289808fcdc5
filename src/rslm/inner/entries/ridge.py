"""Square loss on entries: one ridge regression per column.

With x_i = u_i/√p_i for row i and ridge q_t/2C for column t,

    v_t = argmin_v |y_t − X_t v|² + (q_t/2C) |v|²,     z_t = 2C (y_t − X_t v_t),
    g = Σ_t C |y_t − X_t v_t|² + ½ q_t |v_t|²,          ∇g = −S V with rows scaled by 1/√p_i.

The value is the primal one. In exact arithmetic it equals ½⟨y, z⟩, which would suffer from cancellation in a close fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from rslm.inner.base import ColumnsSolution
from rslm.inner.entries.leverage import leverages
from rslm.inner.entries.weighted import WeightedColumns, sums_by_column
from rslm.inner.obstacles import not_entries_alone
from rslm.kernels import Solved, Systems
from rslm.kernels.scratch import scratch_like
from rslm.problem import Problem
from rslm.runtime.types import Floats


class Ridge(WeightedColumns):
    """Inner solver for a quadratic loss on observed entries."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        super().__init__(problem, n_threads)
        self.unit = 2.0 * self.C  # the systems are divided by ℓ'' = 2
        self.ridge = self.q / self.unit
        self.spare_factors: list[Systems] = []
        self._short: Floats | None = None  # y in single precision

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        if problem.loss.quadratic:
            return not_entries_alone(problem)
        return f"needs a quadratic loss, {problem.loss!r} is not"

    def gains(self, width: int) -> bool:
        return self.suits_single(width)

    def free(self) -> None:
        super().free()
        self.spare_factors.clear()
        self._short = None

    def solve(self, U: Floats) -> RidgeSolution:
        scratch = self.spare.pop() if self.spare else None
        how = {"weight": self.weights, "pinned": self.tail.pinned, "single": self.single}
        X, ridges = self.scaled(U), self.ridges(U.shape[1])
        y = self._targets()
        solved = self.columns.evaluate(y, X, ridges, self.n_threads, scratch, **how)  # type: ignore[arg-type]
        return RidgeSolution(self, U, solved)

    def _targets(self) -> Floats:
        """y, without the offset, in the precision that is asked for."""
        if not self.single:
            self._short = None
            return self.y if self.offset is None else self.y - self.offset
        if self._short is None:
            self._short = self.y
            if self.y.dtype != np.float32:
                self._short = scratch_like(self.y, np.float32)
                self._short[:] = self.y
        return self._short

    @cached_property
    def size_of_targets(self) -> float:
        """(Σ weight y²)^½."""
        factors = (self.y, self.y) if self.weights is None else (self.weights, self.y, self.y)
        products = "i,i->" if self.weights is None else "i,i,i->"
        return math.sqrt(float(np.einsum(products, *factors, dtype=np.float64)))  # without a temporary array


class RidgeSolution(ColumnsSolution):
    """The ridge regressions of all columns at one U."""

    def __init__(self, solver: Ridge, U: Floats, solved: Solved) -> None:
        self._solver = solver
        self._U = U
        self._solved: Solved | None = solved
        self._row_factors: Systems | None = None
        self.V = solved.V
        self.weighted_square = solver.tail.square(solver.q, self.V)  # ‖UᵀS‖²
        self.value = solver.C * solved.squares + 0.5 * self.weighted_square + solver.tail.cost(self.V)
        self.gradient: Floats = solver.of_rows(solved.by_rows, -2.0 * solver.C)
        if solver.single:  # predictions are rounded; the errors of different entries are independent
            change = float(np.finfo(np.float32).eps) * math.sqrt(solved.squares) * solver.size_of_targets
            self.noise = 2.0 * solver.C * change / math.sqrt(solver.columns.entries)

    @property
    def solved(self) -> Solved:
        if self._solved is None:
            raise RuntimeError("this evaluation has been released; evaluate the point again")
        return self._solved

    def derivative(self, xi: Floats) -> Floats:
        s = self._solver
        how = {"weight": s.weights, "single": self.rough}
        moved = s.columns.derivative(self.solved, s.scaled(self._U), s.scaled(xi), s.n_threads, **how)  # type: ignore[arg-type]
        return s.of_rows(moved, 2.0 * s.C)

    def preconditioner(self) -> Callable[[Floats], Floats]:
        """Row i is solved with B_i = (2C/p_i) Σ_t v_t v_tᵀ + ‖UᵀS‖² I."""
        s, _ = self._solver, self.solved  # raises an error if it has been released
        if self._row_factors is None:
            scratch = s.spare_factors.pop() if s.spare_factors else None
            ridges = s.row_ridges(max(self.weighted_square, np.finfo(float).tiny), self.V.shape[1])
            self._row_factors = s.columns.by_rows.systems(self.V, ridges, s.n_threads, s.weights_by_rows, scratch)
        return s.solved_rows(self._row_factors)

    def column_curvature(self) -> Floats:
        s = self._solver
        of_columns = np.diff(s.columns.indptr) if s.weights is None else sums_by_column(s.columns, s.weights)
        return np.asarray(s.unit * of_columns)

    def row_curvature(self, typical: float | None = None, bounds: bool = True) -> tuple[Floats, float]:
        """(2C/p_i) Σ_t v_t v_tᵀ of every row, and ‖UᵀS‖²."""
        s = self._solver
        grams = s.columns.by_rows.grams(self.V, s.n_threads, s.weights_by_rows)
        return s.blocks_of_rows(grams), self.weighted_square

    def along_offset(self, offset: Floats) -> tuple[Floats, Floats]:
        s = self._solver
        D = np.ones(len(offset)) if s.weights is None else s.weights
        X = s.scaled(self._U)
        return s.along_offset(offset, D, X, self.V, self.solved.residual, self.solved.factors)

    def left_out(self) -> Floats:
        s = self._solver
        h = leverages(s.columns, s.scaled(self._U), self.solved.factors, s.n_threads)
        h = s.weighted(h)
        rest = np.maximum(1.0 - h, np.finfo(float).eps)  # 1 − h is 0 if the column fits the entry whatever its value
        errors = self.solved.residual if s.weights is None else self.solved.residual / s.weights
        return np.asarray(s.y - errors / rest)

    def dual(self) -> Floats:
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
