"""The solution of an inner problem on entries with any loss, and its derivatives.

With x_i = u_i/√p_i for row i and the derivatives of the loss at the solution, s = −ℓ' and D = ℓ'', so that z = C s,

    (q_t/C) v_t = X_tᵀ s_t,                                       ∇g = −S V with rows scaled by 1/√p_i,
    (X_tᵀ D_t X_t + q_t/C) v̇_t = Ẋ_tᵀ s_t − X_tᵀ D_t Ẋ_t v_t,      ṡ_t = −D_t (Ẋ_t v_t + X_t v̇_t).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from rslm.inner.base import ColumnsSolution, InnerSolver
from rslm.inner.entries.leverage import leverages
from rslm.inner.tail import FREE, Tail
from rslm.kernels import WIDTH, Columns, Systems
from rslm.kernels.scratch import scratch_like
from rslm.problem import Problem
from rslm.runtime.types import Floats

MANY = 1_000_000  # entries times rank: below this, an evaluation takes about a millisecond in any precision
MODERATE = 1e9  # largest magnitude of numbers, and of their inverses, of which products of four are finite in float32
STIFFEST = 1e-3  # lower limit of 1 − D h: below it, one Newton step cannot predict a column without an entry


class WeightedColumns(InnerSolver):
    """A problem on entries in the form that the kernels take: losses and, for column t, the ridge q_t/C."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        d, T = problem.shape
        self.C = problem.C
        self.columns: Columns = problem.data.columns  # type: ignore[attr-defined]  # entries have a pattern
        self.y = problem.data.values
        self.weights = problem.data.weights
        self.tail = Tail.of(problem)
        self.n_threads = n_threads
        self.p = np.ones(d) if problem.row_weights is None else problem.row_weights
        self.q = np.ones(T) if problem.column_weights is None else problem.column_weights
        self.scale = problem.row_scale
        self._rows_are_weighted = problem.row_weights is not None
        self.unit = self.C  # by which the systems of the columns are divided
        self.ridge: Floats = self.q / self.C
        self._ridges: tuple[int, Floats] | None = None
        self.free_ridge = 0.0 if problem.loss.quadratic else FREE
        self.spare: list[Any] = []  # memory of released points

    @cached_property
    def weights_by_rows(self) -> Floats | None:
        """The weights in the order of `columns.by_rows`."""
        if self.weights is None:
            return None
        return self.columns.in_row_order(self.weights)

    def suits_single(self, width: int) -> bool:
        """Whether there is enough work for single precision to save time, and the numbers have a range that it has."""
        return width <= WIDTH and self.columns.entries * width >= MANY and self.moderate

    @cached_property
    def moderate(self) -> bool:
        """Whether products of targets, weights and factors stay far from overflow and underflow in single precision."""
        arrays = (self.y, self.weights, self.scale)
        return all(a is None or bool(1 / MODERATE <= max(a.max(), -a.min()) <= MODERATE) for a in arrays)

    def scaled(self, U: Floats) -> Floats:
        """The rows of U divided by √p; U itself where rows have no weights."""
        return self.tail.scaled(U, self.scale) if self._rows_are_weighted else U

    def of_rows(self, sums: Floats, factor: float) -> Floats:
        """The derivative by U from the `sums` over rows of a kernel, times `factor`; `sums` is overwritten."""
        sums *= factor
        if self._rows_are_weighted:
            sums[:, : self.tail.rank(sums.shape[1])] *= self.scale
        return sums

    def ridges(self, width: int) -> Floats:
        """The ridge of every column, or of every column and coordinate if there is a location."""
        if self._ridges is None or self._ridges[0] != width:
            counts = (
                np.diff(self.columns.indptr) if self.weights is None else sums_by_column(self.columns, self.weights)
            )
            self._ridges = width, self.tail.ridges(self.ridge, self.unit, width, counts, self.free_ridge)
        return self._ridges[1]

    def row_ridges(self, shift: float, width: int) -> Floats:
        """p_i · shift/unit for the rows of U, and the ridges of what a location adds."""
        return self.tail.ridges_of_rows(self.p * (shift / self.unit), self.unit, width)

    def solved_rows(self, factors: Systems) -> Callable[[Floats], Floats]:
        """η ↦ B⁻¹η, from factors of B · p/unit for every row."""
        if self.tail.width == 0:
            weight = (self.p / self.unit)[:, None]
            return lambda eta: weight * factors.solve(eta, self.n_threads)
        root = self._roots(factors.rank)
        return lambda eta: root * factors.solve(root * eta, self.n_threads) / self.unit

    def blocks_of_rows(self, grams: Floats) -> Floats:
        """The blocks of B, from Σ_t D_it v_t v_tᵀ of every row; `grams` is overwritten."""
        root = self._roots(grams.shape[1])
        grams *= self.unit
        grams /= root[:, :, None]
        grams /= root[:, None, :]
        return grams

    def _roots(self, width: int) -> Floats:
        """√p of every row and coordinate; effects of rows are not scaled by their weights."""
        root = np.repeat(np.sqrt(self.p)[:, None], width, axis=1)
        root[:, self.tail.rank(width) :] = 1.0
        return root

    def weighted(self, values: Floats) -> Floats:
        """The `values` of the observations times their weights."""
        return values if self.weights is None else np.asarray(values * self.weights)

    def along_offset(
        self, offset: Floats, D: Floats, X: Floats, V: Floats, s: Floats, factors: Systems
    ) -> tuple[Floats, Floats]:
        """As `InnerSolution.along_offset`, from s and D of every entry: v̇ = −M⁻¹ XᵀD o, ṡ = −D (o + X v̇)."""
        columns, threads = self.columns, self.n_threads
        dV = factors.solve(columns.gather(-D * offset, X, threads), threads)
        ds = -D * (offset + columns.predict(X, dV, threads))
        moved = columns.scatter(ds, V, threads) + columns.scatter(s, dV, threads)
        return self.of_rows(moved, -self.unit), self.unit * ds

    def free(self) -> None:
        """Free the memory that is kept for later points."""
        self.spare.clear()


class WeightedSolution(ColumnsSolution):
    """V and s at one U. The curvature D and the factors are computed for the first derivative."""

    def __init__(self, solver: WeightedColumns, X: Floats, V: Floats, s: Floats, loss: float) -> None:
        self.solver, self.X, self.V = solver, X, V
        self._s: Floats | None = s
        self.weighted_square = solver.tail.square(solver.q, V)  # ‖UᵀS‖²
        self.value = solver.C * loss + 0.5 * self.weighted_square + solver.tail.cost(V)
        self.gradient: Floats = solver.of_rows(solver.columns.scatter(s, V, solver.n_threads), -solver.C)

    @property
    def s(self) -> Floats:
        if self._s is None:
            raise RuntimeError("this evaluation has been released; evaluate the point again")
        return self._s

    @cached_property
    @abstractmethod
    def curvature(self) -> Floats:
        """D of every entry."""

    def broad_curvature_by_rows(self, typical: float | None = None) -> Floats:
        """The average of D along a longer step, in the order of `columns.by_rows`.

        With kinks it depends on the `typical` error, which is computed if it is not given.
        """
        D = self.curvature
        return np.take(D, self.solver.columns.row_order, out=scratch_like(D), mode="clip")

    @cached_property
    def factors(self) -> Systems:
        """X_tᵀ D_t X_t + q_t/C of every column."""
        solver = self.solver
        return solver.columns.systems(self.X, solver.ridges(self.X.shape[1]), solver.n_threads, self.curvature)

    def derivative(self, xi: Floats) -> Floats:
        solver, s = self.solver, self.s
        moved = solver.columns.weighted_derivative(
            s, self.curvature, self.X, self.V, self.factors, solver.scaled(xi), solver.n_threads
        )
        return solver.of_rows(moved, solver.C)

    def preconditioner(self) -> Callable[[Floats], Floats]:
        """Row i is solved with B_i = (C/p_i) Σ_t D_it v_t v_tᵀ + ‖UᵀS‖² I."""
        solver, _ = self.solver, self.s  # raises an error if it has been released
        ridges = solver.row_ridges(max(self.weighted_square, np.finfo(float).tiny), self.V.shape[1])
        D = self.broad_curvature_by_rows()
        return solver.solved_rows(solver.columns.by_rows.systems(self.V, ridges, solver.n_threads, D))

    def column_curvature(self) -> Floats:
        return sums_by_column(self.solver.columns, self.curvature) * self.solver.C

    def along_offset(self, offset: Floats) -> tuple[Floats, Floats]:
        return self.solver.along_offset(offset, self.curvature, self.X, self.V, self.s, self.factors)

    def row_curvature(self, typical: float | None = None, bounds: bool = True) -> tuple[Floats, float]:
        """(C/p_i) Σ_t D_it v_t v_tᵀ of every row, and ‖UᵀS‖²."""
        solver = self.solver
        grams = solver.columns.by_rows.grams(self.V, solver.n_threads, self.broad_curvature_by_rows(typical))
        return solver.blocks_of_rows(grams), self.weighted_square

    def left_out(self) -> Floats:
        solver, s = self.solver, self.s
        h = leverages(solver.columns, self.X, self.factors, solver.n_threads)
        w = solver.columns.predict(self.X, self.V, solver.n_threads)
        rest = 1.0 - self.curvature * h  # 0 if the column fits the entry exactly, whatever its value
        return w - s * h / np.maximum(rest, STIFFEST)

    def dual(self) -> Floats:
        dual: Floats = np.multiply(self.s, self.solver.C, out=scratch_like(self.s))
        return dual

    def release(self) -> None:
        self._s = None
        for name in ("curvature", "factors"):
            self.__dict__.pop(name, None)


def sums_by_column(columns: Columns, values: Floats) -> Floats:
    """The sum of `values` over the entries of every column."""
    starts, ends = columns.indptr[:-1], columns.indptr[1:]
    filled, out = ends > starts, np.zeros(columns.shape[1])
    if filled.any():
        out[filled] = np.add.reduceat(values, starts[filled], dtype=np.float64)
    return out
