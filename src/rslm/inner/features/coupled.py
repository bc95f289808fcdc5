"""Smooth losses on entries whose columns share features: Newton's method for all columns together.

With G = B̃ V, F in place of U, and s = −ω ℓ', D = ω ℓ'' at the predictions f_iᵀ g_t, for weights ω of the entries,

    V minimises C Σ ω ℓ(y, f_iᵀ g_t) + ½ |V|²,              V = B̃ᵀ Zᵀ F with z = C s,
    ∇h(F) = −Z G,                                            D∇h[Ḟ] = −(Ż G + Z Ġ),  ż = −C D (Ḟ g + F ġ),
    (I + B̃ᵀ H B̃) V̇ = B̃ᵀ (Zᵀ Ḟ − C Fᵀ D Ḟ g),  H_t = C F_tᵀ D_t F_t.

Covariates add an offset to the predictions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import cast

import numpy as np

from rslm.inner.base import ColumnsSolution, InnerSolver
from rslm.inner.entries.leverage import leverages
from rslm.inner.features.shared_systems import SharedSystem
from rslm.inner.newton_steps import ENOUGH, SETTLED
from rslm.inner.obstacles import has_kinks, has_structure
from rslm.losses.checked import CheckedLoss
from rslm.measurements import Bilinear
from rslm.problem import Problem
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats

DESCENT = 1e-4  # least decrease of a step, relative to the decrease that the slope predicts
MOST_STEPS, MOST_TRIALS = 100, 40


class Coupled(InnerSolver):
    """Inner solver for entries whose columns share features, with F in place of U."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        data = cast(Bilinear, problem.data)
        self.C, self.y, self.n_threads = problem.C, data.values, n_threads
        self.columns, self.side = data.columns, data.cols
        self.quadratic, self.loss = problem.loss.quadratic, CheckedLoss(problem.loss)
        self.weights = data.weights
        self.warm: Floats | None = None  # V at the last point

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        if "sides" not in problem.data.traits:
            return "needs features of the columns"
        if problem.row_weights is not None or problem.column_weights is not None:
            return "does not support weights; give them to the indicators of the rows and columns"
        return has_structure(problem) or has_kinks(problem)

    def solve(self, F: Floats) -> CoupledSolution:
        shape = (self.side.width, F.shape[1])
        V = self.warm if self.warm is not None and self.warm.shape == shape else np.zeros(shape)
        point = _Point(self, F, V)
        if not math.isfinite(point.value):  # the warm start is too far away
            point = _Point(self, F, np.zeros(shape))
        system: SharedSystem | None = None
        before = math.inf
        for _ in range(MOST_STEPS):
            raise_if_stopped()
            if system is None or not self.quadratic:
                system = SharedSystem(self.side, self.C * self._grams(F, point.D), self.n_threads)
            descent = point.descent()
            step = system.solve(descent)
            decrement = float(np.vdot(step, descent))
            size = point.square + self.C * float(point.D @ (point.of_V * point.of_V))
            settled = decrement <= SETTLED**2 * size and decrement >= before
            if not decrement > ENOUGH**2 * size or settled:
                break
            before = decrement
            moved = self._moved(point, step, decrement)
            if moved is None:
                break
            point = moved
        assert system is not None
        self.warm = point.V
        return CoupledSolution(point, system)

    def _grams(self, F: Floats, D: Floats) -> Floats:
        if self.quadratic and self.weights is None:  # ℓ'' = 2
            return 2.0 * self.columns.grams(F, self.n_threads)
        return self.columns.grams(F, self.n_threads, D)

    def _moved(self, point: _Point, step: Floats, decrement: float) -> _Point | None:
        """The point after the full step, or after the first half, quarter … that descends; None if none does."""
        part = 1.0
        for _ in range(1 if self.quadratic else MOST_TRIALS):
            raise_if_stopped()
            trial = _Point(self, point.F, point.V + part * step)
            if trial.value <= point.value - DESCENT * part * decrement:
                return trial
            part *= 0.5
        # Near the solution rounding errors hide the descent, but a full Newton step is good there.
        near = self.quadratic or decrement <= SETTLED * abs(point.value)
        return _Point(self, point.F, point.V + step) if near else None


class _Point:
    """The inner objective at one V."""

    def __init__(self, solver: Coupled, F: Floats, V: Floats) -> None:
        self.solver, self.F, self.V = solver, F, V
        side, threads = solver.side, solver.n_threads
        self.G = side.lift(V, threads) if side.base is None else side.base + side.lift(V, threads)
        self.of_V: Floats = solver.columns.predict(F, self.G, threads)
        self.w: Floats = self.of_V if solver.offset is None else self.of_V + solver.offset
        self.square = float(np.vdot(V, V))
        self.value = solver.C * float(self._weighted("value").sum()) + 0.5 * self.square

    def _weighted(self, function: str) -> Floats:
        """A function of the loss at the predictions, times the weights of the entries."""
        values, weights = self.solver.loss(function, self.solver.y, self.w), self.solver.weights
        return np.asarray(values if weights is None else values * weights)

    @cached_property
    def s(self) -> Floats:
        return -self._weighted("gradient")

    @cached_property
    def D(self) -> Floats:
        return self._weighted("hessian")

    def descent(self) -> Floats:
        """B̃ᵀ Zᵀ F − V, the negative gradient."""
        solver = self.solver
        by_columns = solver.columns.gather(solver.C * self.s, self.F, solver.n_threads)
        return solver.side.lower(by_columns, solver.n_threads) - self.V


class CoupledSolution(ColumnsSolution):
    """V, G and the dual variables at one F."""

    def __init__(self, point: _Point, system: SharedSystem) -> None:
        self._solver, self._point, self._system = point.solver, point, system
        self.V, self.G, self.value = point.V, point.G, point.value
        solver = point.solver
        self.gradient: Floats = -solver.columns.scatter(solver.C * point.s, self.G, solver.n_threads)
        self.curvature = solver.C * float(point.D.sum()) / max(len(point.D), 1)  #: the average of C ℓ''

    def derivative(self, xi: Floats) -> Floats:
        solver, point = self._solver, self._point
        columns, threads = solver.columns, solver.n_threads
        moved = columns.predict(xi, self.G, threads)
        rhs = columns.gather(point.s, xi, threads) - columns.gather(point.D * moved, point.F, threads)
        dG = solver.side.lift(self._system.solve(solver.side.lower(solver.C * rhs, threads)), threads)
        ds = -point.D * (moved + columns.predict(point.F, dG, threads))
        return -solver.C * (columns.scatter(ds, self.G, threads) + columns.scatter(point.s, dG, threads))

    def along_offset(self, offset: Floats) -> tuple[Floats, Floats]:
        """V̇ and ṡ from (I + B̃ᵀ H B̃) V̇ = −C B̃ᵀ Fᵀ D o, ṡ = −D (o + F ġ)."""
        solver, point = self._solver, self._point
        columns, threads = solver.columns, solver.n_threads
        rhs = solver.side.lower(solver.C * columns.gather(-point.D * offset, point.F, threads), threads)
        dG = solver.side.lift(self._system.solve(rhs), threads)
        ds = -point.D * (offset + columns.predict(point.F, dG, threads))
        return -solver.C * (columns.scatter(ds, self.G, threads) + columns.scatter(point.s, dG, threads)), solver.C * ds

    def preconditioner(self) -> Callable[[Floats], Floats]:
        return self.preconditioner_of_rows(np.ones(self._solver.columns.shape[0]))

    def preconditioner_of_rows(self, own: Floats) -> Callable[[Floats], Floats]:
        """Row i is solved with B_i = C λ_i² Σ_t D_it g_t g_tᵀ + |V|² I, for indicators of the rows with weights λ."""
        solver, point = self._solver, self._point
        shift = max(point.square, np.finfo(float).tiny)
        weight = 1.0 / (solver.C * np.maximum(own, np.finfo(float).tiny ** 0.25) ** 2)
        by_rows, order = solver.columns.by_rows, solver.columns.row_order
        factors = by_rows.systems(self.G, shift * weight, solver.n_threads, point.D[order])
        return lambda eta: weight[:, None] * factors.solve(eta, solver.n_threads)

    def left_out(self) -> Floats:
        """Every entry predicted from the others of its column; only if columns do not share features."""
        solver, point = self._solver, self._point
        own = solver.side.own
        assert solver.side.X is None
        assert own is not None
        ridge = 1.0 / (solver.C * own**2)
        factors = solver.columns.systems(point.F, ridge, solver.n_threads, point.D)
        h = leverages(solver.columns, point.F, factors, solver.n_threads)
        return point.w - point.s * h / np.maximum(1.0 - point.D * h, 1e-3)

    def dual(self) -> Floats:
        return self._solver.C * self._point.s
