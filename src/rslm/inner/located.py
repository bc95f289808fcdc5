"""Problems with a location: row effects, mean and covariates are outer variables like U, column effects are part of V.

With the vector a of `Measurement.located`, the predictions are those of

    W + a cᵀ + (b + μ a) 1ᵀ = [X, a, b + μ a] [V, c, 1]ᵀ,

so an inner solver is used at U⁺ = [U, a, b + μ a]. It finds V and c, and its gradient by the last column is −S 1:

    ∂g/∂b = ρ_r b − S 1,    ∂g/∂μ = −aᵀS 1,    ∂g/∂β = −Xᵀz

for the dual variables z of the observations and the covariates X. A point is an array of r + 1 columns (`Packing`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from rslm.inner.base import ColumnsSolution, InnerSolution, InnerSolver
from rslm.inner.kept import Kept
from rslm.inner.kept_location import Inside, moved_inside, nearest_inside
from rslm.inner.tail import Tail
from rslm.location import Effects
from rslm.location.packing import Packing
from rslm.losses.checked import CheckedLoss
from rslm.problem import Problem
from rslm.runtime.types import Floats
from rslm.structures import Multipliers

LITTLE = 1e-3  # least curvature by the mean, relative to that with fixed column effects, and by coefficients

CHEAP = 1.1  # relative objective up to which moving only columns into the bounds is good enough


class Located(InnerSolver):
    """Inner solver for a problem with a location, by a `solver` of the extended problem."""

    def __init__(self, problem: Problem, solver: InnerSolver, n_threads: int) -> None:
        assert problem.location is not None
        self.problem, self.location, self.n_threads = problem, problem.location, n_threads
        self.solver, self.tail = solver, Tail.of(problem)
        self.packing, self.loss = Packing.of(problem), CheckedLoss(problem.loss)
        self.a = problem.data.located()[1]
        # Without any penalty a constant could be moved between row and column effects.
        self.sum_is_zero = self.location.rows == 0.0 == self.location.columns and "entries" in problem.data.traits

    @property
    def warm(self) -> Any:
        """The warm start of the solver, with its type: another one may solve the next problem."""
        known = self.solver.warm
        return None if known is None else (type(self.solver), known)

    @warm.setter
    def warm(self, value: Any) -> None:
        if value is None:
            self.solver.warm = None
        elif value[0] is type(self.solver):
            self.solver.warm = value[1]

    @property
    def single(self) -> bool:
        return self.solver.single

    @single.setter
    def single(self, value: bool) -> None:
        self.solver.single = value

    def gains(self, width: int) -> bool:
        if self.location.covariates is not None:  # the targets would have to be rounded again at every point
            return False
        return self.solver.gains(width - 1 + self.tail.width)  # a point has one column for the row effects

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        return None if problem.location is not None else "needs a location"

    def solve(self, U: Floats) -> LocatedSolution:
        if (X := self.location.covariates) is not None:
            self.solver.offset = X @ self.packing.parts(U)[3]
        return LocatedSolution(self, U, self.solver.solve(self.extended(U)))

    def extended(self, point: Floats, *, direction: bool = False) -> Floats:
        """U⁺ at a point, or its derivative along a `direction`."""
        U, b, mean, _ = self.packing.parts(point)
        d, r = U.shape
        out = np.zeros((len(self.a), r + self.tail.width))
        out[:d, :r] = U
        if self.tail.columns is not None and not direction:
            out[:, r] = self.a
        if self.tail.pinned:
            out[:d, -1] = b
            out[:, -1] += mean * self.a
        return out

    def reduced(self, gradient: Floats, b: Floats, z: Floats | None = None) -> Floats:
        """A derivative by the point: from one by U⁺, the row effects b that are penalised, and dual variables z."""
        d, r = self.problem.shape[0], self.tail.rank(gradient.shape[1])
        last = gradient[:, -1] if self.tail.pinned else np.zeros(len(self.a))
        of_rows = self.centred(last[:d] + self.tail.rows * b) if self.location.rows is not None else np.zeros(d)
        of_mean = float(self.a @ last) if self.location.mean else 0.0
        X = self.location.covariates
        of_covariates = np.zeros(self.packing.covariates) if X is None or z is None else -(X.T @ z)
        return self.packing.derivative(gradient[:d, :r], of_rows, of_mean, of_covariates)

    def centred(self, rows: Floats) -> Floats:
        """A change of the row effects that keeps their sum, where only that determines them."""
        return rows - rows.mean() if self.sum_is_zero else rows

    def normalised(self, X: Floats, V: Floats) -> tuple[Floats, Floats]:
        """U of norm 1 and V of W = X Vᵀ."""
        U = X / self.problem.row_scale
        size = float(np.linalg.norm(U))
        if not size > 0.0:
            return np.full(U.shape, 1.0 / math.sqrt(U.size)), np.zeros(V.shape)
        return U / size, V * size

    def begin_at(self, U: Floats, V: Floats) -> None:
        """Not supported: column effects would be needed too."""

    def free(self) -> None:
        self.solver.free()


class LocatedSolution(ColumnsSolution):
    """A solution at one point, with derivatives by U, row effects, mean and coefficients."""

    def __init__(self, solver: Located, point: Floats, inner: InnerSolution) -> None:
        self._solver, self._point, self._inner = solver, point, inner
        tail, location, packing = solver.tail, solver.location, solver.packing
        _, self._b, self._mean, self._coefficients = packing.parts(point)
        self.value = inner.value + 0.5 * tail.rows * float(self._b @ self._b)
        z = None if location.covariates is None else inner.dual()
        self.gradient = solver.reduced(inner.gradient, self._b, z)
        self.violation_cost, self.noise = inner.violation_cost, inner.noise

    # V is computed when it is needed: with observations in other processes it has to be sent.

    @cached_property
    def V(self) -> Floats:  # type: ignore[override]
        V = self._inner.V
        return np.ascontiguousarray(V[:, : self._solver.tail.rank(V.shape[1])])

    @cached_property
    def effects(self) -> Effects:  # type: ignore[override]
        tail, V = self._solver.tail, self._inner.V
        c = V[:, tail.rank(V.shape[1])].copy() if tail.columns is not None else np.zeros(len(V))
        return Effects(self._mean, self._b, c, self._coefficients)

    @property
    def extended(self) -> InnerSolution:
        return self._inner

    def derivative(self, xi: Floats) -> Floats:
        solver, self._inner.rough = self._solver, self.rough
        moved = self._inner.derivative(solver.extended(xi, direction=True))
        out = solver.reduced(moved, solver.packing.parts(xi)[1])
        if solver.location.covariates is None:
            return out
        # The Hessian is symmetric, so its columns by the coefficients are also its rows.
        H, d = self._by_coefficients, solver.problem.shape[0] + 1
        out += np.einsum("k,kij->ij", xi[d:, -1], H)
        out[d:, -1] += np.einsum("kij,ij->k", H[:, :d], xi[:d])
        return out

    @cached_property
    def _by_coefficients(self) -> Floats:
        """The derivatives of the gradient by the coefficients of the covariates, as they are packed."""
        solver, X = self._solver, self._solver.location.covariates
        assert X is not None
        none = np.zeros(solver.problem.shape[0])
        scales = solver.packing.scales[solver.problem.shape[0] + 1 :]
        found = (self._inner.along_offset(scale * X[:, k]) for k, scale in enumerate(scales))
        return np.array([solver.reduced(moved, none, dz) for moved, dz in found])

    def preconditioner(self) -> Callable[[Floats], Floats]:
        """For U and row effects that of the extended problem; for the mean its curvature, column effects eliminated."""
        solver = self._solver
        of_rows, packing, tail = self._inner.preconditioner(), solver.packing, solver.tail
        of_mean, total = self._inner.mean_curvature(tail.columns) if solver.location.mean else (1.0, 0.0)
        # With column effects that are not penalised any mean is optimal, and far from kinks there is no curvature at
        # all. Then let a step of one unit change the objective by a small part of its value.
        flat = LITTLE * abs(self.value)
        least = max(LITTLE * total, flat / packing.scales[solver.problem.shape[0]] ** 2)
        of_mean = max(of_mean, least, np.finfo(float).tiny)
        at = slice(solver.problem.shape[0] + 1, None)
        inverse = None
        if solver.location.covariates is not None:
            values, vectors = np.linalg.eigh(self._by_coefficients[:, at, -1])
            lowest = max(LITTLE * float(values.max()), flat, np.finfo(float).tiny)
            inverse = (vectors / np.maximum(values, lowest)) @ vectors.T

        def solve(eta: Floats) -> Floats:
            U, b, mean, _ = packing.gradient_parts(eta)
            d, r = U.shape
            extended = np.zeros((len(solver.a), r + tail.width))
            extended[:d, :r] = U
            if tail.pinned:
                extended[:d, -1] = solver.centred(b)
            found = of_rows(extended)
            rows = solver.centred(found[:d, -1]) if solver.location.rows is not None else np.zeros(d)
            out = packing.packed(found[:d, :r], Effects(mean / of_mean, rows, np.zeros(0), np.zeros(0)))
            if inverse is not None:
                out[at, -1] = inverse @ eta[at, -1]
            return out

        return solve

    def row_curvature(self, typical: float | None = None, bounds: bool = True) -> tuple[Floats, float]:
        """The blocks of U and, as their last coordinate, the row effects, without the ridge of these."""
        grams, shift = self._inner.row_curvature(typical, bounds)
        tail, width = self._solver.tail, grams.shape[1]
        moving = tail.moving(width)
        out = np.zeros((len(grams), tail.rank(width) + 1, tail.rank(width) + 1))
        out[:, : len(moving), : len(moving)] = grams[:, moving][:, :, moving]
        return out, shift

    def dual(self) -> Floats:
        return self._inner.dual()

    def left_out(self) -> Floats:
        inner: Any = self._inner
        found: Floats = inner.left_out()
        return found

    def multipliers(self) -> Multipliers | None:
        return self._inner.multipliers()

    def within_bounds(self) -> tuple[Floats, InnerSolution] | None:
        """Column effects and V moved into the bounds; if there are none, or at a high cost, everything is moved."""
        solver, box = self._solver, self._solver.problem.structure.box
        if box is None:
            return None
        inner = self._inner.within_bounds()
        kept = None if inner is None else LocatedSolution(solver, self._point, inner[1])
        if kept is not None and kept.value <= CHEAP * abs(self.value):
            return self._point, kept
        U, V = solver.packing.parts(self._point)[0], self.V
        given = Inside(U * solver.problem.row_scale, V, self.effects)
        found = [moved_inside(box, solver.location, given, self._value)] if (solver.a == 1.0).all() else []
        if kept is None and found:
            found.append(nearest_inside(box, solver.location, given, solver.n_threads))
        best = min((one for one in found if one is not None), key=self._value, default=None)
        least = math.inf if best is None else self._value(best)
        if kept is not None and not least < kept.value:
            return self._point, kept
        if best is None:
            return self._point, Kept(V, math.inf, None, self.effects)
        U, V = solver.normalised(best.X, best.V)
        return solver.packing.packed(U, best.effects), Kept(V, least, None, best.effects)

    def _value(self, at: Inside) -> float:
        """The objective of predictions within the bounds."""
        problem, location = self._solver.problem, self._solver.location
        U, V = self._solver.normalised(at.X, at.V)
        w = problem.predict(U, V, self._solver.n_threads, effects=at.effects)
        losses = self._solver.loss("value", np.asarray(problem.data.values, dtype=np.float64), w)
        weights, q = problem.data.weights, problem.column_weights
        loss = problem.C * float(np.sum(losses if weights is None else losses * weights))
        return (
            loss + 0.5 * float(np.sum((V if q is None else V * np.sqrt(q)[:, None]) ** 2)) + at.effects.cost(location)
        )

    def release(self) -> None:
        self._inner.release()
