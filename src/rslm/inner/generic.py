"""Any measurement, smooth loss, soft bounds and penalty: Newton's method in V.

With X = diag(1/√p) U and W = X Vᵀ, the inner problem is

    min over V and b   Σ_k f_k(W, b) + ½ Σ_t q_t |v_t|²

with the terms f_k of `rslm.inner.terms`; b are the intercepts of the columns, if there are any. With the dual matrices
S_k = −∇f_k(W) and S = Σ_k S_k,

    q V = SᵀX,   ∇g = −diag(1/√p) S V,   D∇g[ξ] = −diag(1/√p) (Ṡ V + S V̇),
    q V̇ = ṠᵀX + SᵀẊ,   Ṡ = S'[Ẋ Vᵀ + X V̇ᵀ],   Ẋ = diag(1/√p) ξ.

This solver is used for all problems that no specialised solver fits. It is slower: a Newton
step needs as many passes over the data as the rank if columns are independent, and about a hundred if not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import numpy as np

from rslm.inner.base import InnerSolution, InnerSolver
from rslm.inner.kept import Kept, kept_bounds
from rslm.inner.newton_steps import ENOUGH, SETTLED, step_length
from rslm.inner.obstacles import has_kinks
from rslm.inner.tail import Tail
from rslm.inner.terms import Adjoint, BoundsTerm, LossState, LossTerm, PenaltyTerm, State, Term
from rslm.linalg.conjugate_gradients import conjugate_gradients
from rslm.linalg.products import Products
from rslm.problem import Problem
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats
from rslm.structures import Multipliers, Smooth, SoftBox

MOST_STEPS = 100
MOST_PRODUCTS = 1000  # with the Hessian, for one system
DIRECT = 200  # unknowns up to which the Hessian is formed if columns are coupled
EXACT = 1e-12  # relative residual of a system
FREE = 1e-6  # negligible penalty of intercepts: a column with all errors far from kinks has no other curvature
SLOW = 1_000_000  # a fit takes minutes with more observations, or, with bounds, with more entries of W


class Generic(InnerSolver):
    """Inner solver for any convex problem; it needs only products with the measurement."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        T = problem.shape[1]
        self.problem, self.n_threads, self.scale = problem, n_threads, problem.row_scale
        self.q: Floats = (np.ones(T) if problem.column_weights is None else problem.column_weights)[:, None]
        self.loss = LossTerm(problem, n_threads)
        self.intercept = problem.data.intercept
        self.tail = Tail.of(problem)
        self.coupled = problem.data.couples_columns or problem.structure.couples_columns
        self.bounds = self.penalty = None
        if problem.structure.form == "soft bounds":
            self.bounds = BoundsTerm(problem, cast(SoftBox, problem.structure), n_threads)
        if problem.structure.form == "penalty":
            self.penalty = PenaltyTerm(cast(Smooth, problem.structure))
        self.warm: Floats | None = None  # V and b at the last point

    def ridges(self, width: int) -> Floats:
        """The ridge of every column of V, or of every column and coordinate if there is a location."""
        counts: Floats = np.ones(len(self.q))
        if self.tail.columns == 0.0:
            data = self.problem.data
            counts = self.problem.C * np.bincount(data.groups(1), data.weights, data.shape[1])
        return self.tail.ridges(self.q[:, 0], 1.0, width, counts, pinned=0.0).reshape(len(self.q), -1)

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        if problem.structure.form not in ("free", "soft bounds", "penalty"):
            return f"supports soft bounds and penalties only, the problem has {problem.structure!r}"
        return has_kinks(problem)

    def solve(self, U: Floats) -> GenericSolution:
        X, shape = self.tail.scaled(U, self.scale), (len(self.q), U.shape[1] - self.tail.pinned + self.intercept)
        warm = self.warm if self.warm is not None and self.warm.shape == shape else np.zeros(shape)
        point = Point(self, X, warm)
        if not math.isfinite(point.value):  # the warm start is too far away
            point = Point(self, X, np.zeros(shape))
        before = math.inf
        for count in range(MOST_STEPS):
            raise_if_stopped()
            descent, system = point.descent, System(point)
            step = system.solve(descent)
            decrement, size = float(np.vdot(step, descent)), point.size()
            settled = decrement <= SETTLED**2 * size and decrement >= before
            if not decrement > ENOUGH**2 * size or settled:
                break
            before = decrement
            trials = Trials(point, step)
            if step_length(trials.slope, -decrement, count) == 0.0:
                break
            assert trials.last is not None
            point = trials.last
        self.warm = point.Z
        return GenericSolution(self, U, point, system)


class Trials:
    """Points along a step, of which the last one is kept."""

    def __init__(self, point: Point, step: Floats) -> None:
        self._point, self._step, self.last = point, step, None

    last: Point | None

    def slope(self, length: float) -> float:
        self.last = Point(self._point.solver, self._point.X, self._point.Z + length * self._step)
        return -float(np.vdot(self._step, self.last.descent))


class Point:
    """All terms at one V and b, which are the columns of Z."""

    def __init__(self, solver: Generic, X: Floats, Z: Floats) -> None:
        self.solver, self.X, self.Z = solver, X, Z
        self.V, self.b = self.parted(Z)
        self.q = solver.ridges(X.shape[1])
        self.loss: LossState = solver.loss.at(X, self.V, self.b, solver.offset)
        self.bounds = None if solver.bounds is None else solver.bounds.at(X, self.V, self.b)
        others: list[Term] = [] if solver.penalty is None else [solver.penalty]
        self.states: list[State] = [self.loss, *(term.at(X, self.V, self.b) for term in others)]
        self.states += [] if self.bounds is None else [self.bounds]
        self.square = solver.tail.square(solver.q[:, 0], self.V)
        of_intercepts = 0.0 if self.b is None else FREE * float(np.sum(np.square(self.b)))
        self.value = sum(state.value for state in self.states) + 0.5 * (self.square + of_intercepts)
        self.value += solver.tail.cost(self.V)
        self.descent = self.joined(
            sum((s.transposed_times(X) for s in self.states), -self.q * self.V),
            None if self.b is None else self.loss.sums() - FREE * self.b,
        )

    def parted(self, Z: Floats, constant: float = 1.0) -> tuple[Floats, Floats | None]:
        """V, whose pinned coordinate is not in Z, and b."""
        if self.solver.tail.pinned:
            return np.column_stack([Z, np.full(len(Z), constant)]), None
        return (np.ascontiguousarray(Z[:, :-1]), Z[:, -1].copy()) if self.solver.intercept else (Z, None)

    def joined(self, V: Floats, b: Floats | None) -> Floats:
        """The inverse of `parted`."""
        if self.solver.tail.pinned:
            return np.ascontiguousarray(V[:, :-1])
        return V if b is None else np.column_stack([V, b])

    def moved(self, A: Floats, B: Floats, b: Floats | None) -> list[Products]:
        """The derivatives of the dual matrices along A Bᵀ and b; the first one is that of the loss."""
        return [s.moved(A, B, b) for s in self.states]

    def sums(self, of_loss: Products) -> Floats | None:
        """The sums of z over every column, for the intercepts; None without intercepts."""
        return cast(LossState, of_loss).sums() if self.solver.intercept else None

    def curvature(self) -> Floats:
        """The average curvature of an entry, for each column."""
        return sum((np.asarray(s.curvature()) for s in self.states), np.zeros(len(self.V)))

    def size(self) -> float:
        """The squared norm of the solution in the metric of the Hessian."""
        return self.square + float(self.loss.D @ (self.loss.w * self.loss.w))


class System:
    """The Hessian at a point, and its inverse.

    Where columns are independent the Hessian is a block per column, and all blocks together cost as many products as
    one block has columns. Else a small Hessian is formed, and a large one is left to conjugate gradients.
    """

    def __init__(self, point: Point) -> None:
        self.point, solver = point, point.solver
        self.solve: Callable[[Floats], Floats] = self._iterated
        direct = self._by_columns if not solver.coupled else self._as_a_whole if point.Z.size <= DIRECT else None
        if direct is not None:
            with suppress(np.linalg.LinAlgError):  # overflow
                self.solve = direct()
                return
        values, self._vectors = np.linalg.eigh(point.X.T @ point.X)
        self._inverse: Floats = 1.0 / (solver.q + point.curvature()[:, None] * np.maximum(values, 0.0))
        self._of_intercepts: Floats | float = 0.0
        if solver.intercept:
            self._of_intercepts = 1.0 / (solver.loss.data.sums_by_column(point.loss.D) + FREE)

    def _product(self, Z: Floats) -> Floats:
        point = self.point
        V, b = point.parted(Z, 0.0)
        moved = point.moved(point.X, V, b)
        of_V = sum((-m.transposed_times(point.X) for m in moved), point.q * V)
        sums = point.sums(moved[0])
        return point.joined(of_V, None if sums is None or b is None else FREE * b - sums)

    def _by_columns(self) -> Callable[[Floats], Floats]:
        T, rank = self.point.Z.shape
        blocks = np.empty((T, rank, rank))
        for k in range(rank):
            unit = np.zeros((T, rank))
            unit[:, k] = 1.0
            blocks[:, :, k] = self._product(unit)
        inverses = np.linalg.inv(0.5 * (blocks + blocks.transpose(0, 2, 1)))
        return lambda Z: np.einsum("tkl,tl->tk", inverses, Z)

    def _as_a_whole(self) -> Callable[[Floats], Floats]:
        shape = self.point.Z.shape
        matrix = np.array([self._product(unit.reshape(shape)).ravel() for unit in np.eye(self.point.Z.size)])
        inverse = np.linalg.inv(0.5 * (matrix + matrix.T))
        return lambda Z: (inverse @ Z.ravel()).reshape(shape)

    def _precondition(self, Z: Floats) -> Floats:
        V, b = self.point.parted(Z, 0.0)
        of_V = ((V @ self._vectors) * self._inverse) @ self._vectors.T
        return self.point.joined(of_V, None if b is None else self._of_intercepts * b)

    def _iterated(self, right_side: Floats) -> Floats:
        return conjugate_gradients(self._product, right_side, self._precondition, tol=EXACT, most=MOST_PRODUCTS)


class GenericSolution(InnerSolution):
    """The inner problem solved at one U."""

    def __init__(self, solver: Generic, U: Floats, point: Point, system: System) -> None:
        self._solver, self._U, self._point, self._system = solver, U, point, system
        self.V, self.value = point.V, point.value
        self.violation_cost = 0.0 if point.bounds is None else point.bounds.value
        self.gradient = solver.tail.scaled(-np.asarray(sum(s.times(point.V) for s in point.states)), solver.scale)

    def intercepts(self) -> Floats | None:
        middle = self._solver.loss.middle
        return None if self._point.b is None or middle is None else self._point.b + middle

    def derivative(self, xi: Floats) -> Floats:
        solver, point = self._solver, self._point
        dX = solver.tail.scaled(xi, solver.scale)
        along = point.moved(dX, point.V, None if point.b is None else np.zeros_like(point.b))
        of_V = sum((m.transposed_times(point.X) for m in along), np.zeros_like(point.V))
        of_V = sum((s.transposed_times(dX) for s in point.states), of_V)
        dV, db = point.parted(self._system.solve(point.joined(of_V, point.sums(along[0]))), 0.0)
        moved = point.moved(np.hstack([dX, point.X]), np.hstack([point.V, dV]), db)
        total = sum(m.times(point.V) for m in moved) + sum(s.times(dV) for s in point.states)
        return solver.tail.scaled(-np.asarray(total), solver.scale)

    def preconditioner(self) -> Callable[[Floats], Floats]:
        """All rows are solved with κ VᵀV + |V|² I, for the average curvature κ of an entry."""
        V, point, tail = self.V, self._point, self._solver.tail
        B = float(np.mean(point.curvature())) * V.T @ V
        B += np.diag(tail.diagonal(max(point.square, np.finfo(float).tiny), V.shape[1]))
        if tail.columns is not None:  # this column of U does not move
            B[tail.rank(V.shape[1])] = B[:, tail.rank(V.shape[1])] = np.eye(V.shape[1])[tail.rank(V.shape[1])]
        inverse = np.linalg.inv(B)
        inverse = 0.5 * (inverse + inverse.T)
        return lambda eta: eta @ inverse

    def dual(self) -> Floats:
        return self._point.loss.z

    def along_offset(self, offset: Floats) -> tuple[Floats, Floats]:
        solver, point, loss = self._solver, self._point, self._point.loss
        first = Adjoint(loss.data, -loss.D * offset, solver.n_threads)
        right = point.joined(first.transposed_times(point.X), first.sums() if solver.intercept else None)
        dV, db = point.parted(self._system.solve(right), 0.0)
        moved = point.moved(point.X, dV, db)
        total = sum(m.times(point.V) for m in (first, *moved)) + sum(s.times(dV) for s in point.states)
        dz = first.z + loss.term.change(point.X, dV, db, loss.D)
        return solver.tail.scaled(-np.asarray(total), solver.scale), dz

    def column_curvature(self) -> Floats:
        data, D = self._solver.problem.data, self._point.loss.D
        return np.bincount(data.groups(1), D, data.shape[1]).astype(np.float64)

    def multipliers(self) -> Multipliers | None:
        bounds = self._point.bounds
        return None if bounds is None else Multipliers(bounds.entries, bounds.values)

    def within_bounds(self) -> tuple[Floats, Kept] | None:
        solver, box, b = self._solver, self._solver.problem.structure.box, self._point.b
        if box is None:
            return None

        if solver.tail.width:  # `Located` moves predictions into the bounds
            return None

        def value(X: Floats, V: Floats) -> float:
            size = float(np.linalg.norm(X / solver.scale)) or 1.0
            return solver.loss.at(X, V, b).value + 0.5 * float(np.sum(solver.q * (V * size) ** 2))

        return kept_bounds(box, self._U, self.V, self.intercepts(), solver.scale, value, solver.n_threads)


def slow(problem: Problem) -> str | None:
    """A warning for the user if a fit with this solver will be slow; otherwise None."""
    d, T = problem.shape
    size = max(len(problem.data), d * T if problem.structure.box is not None else 0)
    if size < SLOW:
        return None
    return (
        f"no specialised solver supports {problem.loss!r} with {problem.data!r} and this structure, so the generic one "
        f"is used. It takes minutes for more than about {SLOW:,} numbers, and here are {size:,}; max_time limits it"
    )
