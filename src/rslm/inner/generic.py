"""Any measurement, smooth loss and penalty of W: Newton's method in V, its systems solved by conjugate gradients.

With X = diag(1/√p) U and W = X Vᵀ, the inner problem is

    min over V and b   Σ_k f_k(W, b) + ½ Σ_t q_t |v_t|²

over terms f_k: the loss of the observations, the cost of going beyond soft bounds, a quadratic penalty. A term is known
by its dual matrix S_k = −∇f_k(W), and by how that moves with W, each as products with thin matrices; b are the
intercepts of the columns, if there are any. With S = Σ_k S_k,

    q V = SᵀX,   ∇g = −diag(1/√p) S V,   D∇g[ξ] = −diag(1/√p) (Ṡ V + S V̇),
    q V̇ = ṠᵀX + SᵀẊ,   Ṡ = S'[Ẋ Vᵀ + X V̇ᵀ],   Ẋ = diag(1/√p) ξ.

It is the solver of what no other one knows, and slow beside those: about a hundred passes over the data a point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from rslm.inner.inward import drawn_inward
from rslm.inner.kept_bounds import nearest, within_reach
from rslm.inner.newton import Newton
from rslm.kernels import Columns
from rslm.losses.checked import CheckedLoss
from rslm.measurements.base import Measurement
from rslm.problem import Problem
from rslm.runtime.interrupts import look
from rslm.runtime.types import Floats
from rslm.structures import Multipliers, Smooth, SoftBox

ENOUGH = 1e-11  # relative length of a step, in the norm of the Hessian, that is not worth taking
SETTLED = 1e-7  # a step this small that is no shorter than the one before is made of rounding errors
UPHILL = 0.1  # slope at the end of a step, relative to that at its start, up to which it is not too long
CAUTIOUS = 10  # after this many steps not even that
MOST_STEPS, MOST_TRIALS = 100, 40
NEAR_TRIALS = 5  # by the secant rule; a step that is still too long is far too long
MOST_PRODUCTS = 1000  # of the Hessian, for one system
EXACT = 1e-12  # relative residual of a system
FREE = 1e-6  # penalty of an intercept, next to nothing: without any, columns far from all kinks would have no curvature
BLOCK = 1 << 20  # entries of W that exist at a time


class Moved(Protocol):
    """A matrix by its products: S_k, or how it moves."""

    def times(self, Y: Floats) -> Floats:
        """S_k Y for Y of shape (T, k)."""

    def transposed_times(self, X: Floats) -> Floats:
        """S_kᵀX for X of shape (d, k)."""

    def sums(self) -> Floats | float:
        """Of every column: the derivative by its intercept, with the sign of S_k; 0 of terms that know none."""


class State(Moved, Protocol):
    """A term at one W."""

    @property
    def value(self) -> float: ...

    def moved(self, A: Floats, B: Floats, b: Floats | float) -> Moved:
        """S_k'[A Bᵀ], and [b] of the intercepts."""

    def curvature(self) -> Floats | float:
        """Of an entry, on the average over every column: what a preconditioner wants."""


class Term(Protocol):
    """One of the functions of W that are added up."""

    def at(self, X: Floats, V: Floats, b: Floats | float) -> State: ...


# ---- the loss ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Adjoint:
    """M*z by its products."""

    data: Measurement
    z: Floats
    threads: int

    def times(self, Y: Floats) -> Floats:
        return self.data.adjoint_times(self.z, Y, self.threads)

    def transposed_times(self, X: Floats) -> Floats:
        return self.data.adjoint_transposed_times(self.z, X, self.threads)

    def sums(self) -> Floats | float:
        return self.data.sums_by_column(self.z) if self.data.intercept else 0.0


class LossTerm:
    """C Σ ℓ(y, M W + b)."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        assert isinstance(problem.data, Measurement)
        self.data, self.C, self.loss, self.threads = problem.data, problem.C, CheckedLoss(problem.loss), n_threads
        self.y = np.asarray(problem.data.values, dtype=np.float64)

    def apply(self, X: Floats, V: Floats, b: Floats | float) -> Floats:
        w = self.data.apply(X, V, self.threads)
        return np.asarray(w + self.data.by_column(b)) if isinstance(b, np.ndarray) else w

    def at(self, X: Floats, V: Floats, b: Floats | float) -> LossState:
        return LossState(self, self.apply(X, V, b))


class LossState(Adjoint):
    def __init__(self, term: LossTerm, w: Floats) -> None:
        self.term, self.w = term, w
        with np.errstate(all="ignore"):  # what overflows is a step that goes too far
            self.value = term.C * float(np.sum(term.loss("value", term.y, w)))
            z = -term.C * term.loss("gradient", term.y, w)
        super().__init__(term.data, z, term.threads)

    @cached_property
    def D(self) -> Floats:
        return np.asarray(self.term.C * self.term.loss("hessian", self.term.y, self.w))

    def moved(self, A: Floats, B: Floats, b: Floats | float) -> Adjoint:
        return Adjoint(self.data, -self.D * self.term.apply(A, B, b), self.threads)

    def curvature(self) -> float:
        d, T = self.data.shape
        return float(self.D.sum()) / (d * T) * self.data.gain


# ---- bounds --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sparse:
    """A matrix with few entries."""

    entries: Columns
    values: Floats
    threads: int

    def times(self, Y: Floats) -> Floats:
        return self.entries.scatter(self.values, Y, self.threads)

    def transposed_times(self, X: Floats) -> Floats:
        return self.entries.gather(self.values, X, self.threads)

    def sums(self) -> float:
        return 0.0


class BoundsTerm:
    """(C/2ε) Σ distance(w − ε a⁰/C)² of every entry of W from its bounds; see `rslm.structures.soft_box`."""

    def __init__(self, problem: Problem, soft: SoftBox, n_threads: int) -> None:
        self.stiffness, self.threads, self.shape = problem.C / soft.softness, n_threads, problem.shape
        self.lower, self.upper = soft.planes(problem.shape)
        self.expected, self.constant = soft.expected, 0.0
        if soft.expected is not None:
            self.constant = 0.5 * float(soft.expected.values @ soft.expected.values) / self.stiffness

    def at(self, X: Floats, V: Floats, b: Floats | float) -> BoundsState:
        rows, values, counts = [], [], []
        step = max(BLOCK // len(X), 1)
        for start in range(0, len(V), step):
            look()
            at = slice(start, min(start + step, len(V)))
            W = X @ V[at].T
            if self.expected is not None:
                entries = self.expected.entries
                own = slice(entries.indptr[at.start], entries.indptr[at.stop])
                column = np.repeat(np.arange(at.stop - at.start), np.diff(entries.indptr[at.start : at.stop + 1]))
                W[entries.index[own], column] -= self.expected.values[own] / self.stiffness
            beyond = (W - np.clip(W, self.lower[:, at], self.upper[:, at])).T
            column, row = np.nonzero(beyond)
            rows.append(row)
            values.append(beyond[column, row])
            counts.append(np.bincount(column, minlength=at.stop - at.start))
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64)
        pattern = Columns(indptr, np.concatenate(rows).astype(np.int32), len(X))
        return BoundsState(self, pattern, np.concatenate(values))


class BoundsState(Sparse):
    def __init__(self, term: BoundsTerm, entries: Columns, beyond: Floats) -> None:
        super().__init__(entries, -term.stiffness * beyond, term.threads)
        self.term = term
        self.value = 0.5 * term.stiffness * float(beyond @ beyond) - term.constant

    def moved(self, A: Floats, B: Floats, b: Floats | float) -> Sparse:
        change = self.entries.predict(A, B, self.threads)
        return Sparse(self.entries, -self.term.stiffness * change, self.threads)

    def curvature(self) -> Floats:
        return self.term.stiffness / self.term.shape[0] * np.diff(self.entries.indptr)


# ---- a quadratic penalty --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quadratic:
    """−𝓛(A Bᵀ) for 𝓛 W = L_rows W + W L_columns; at one W, with the value of the penalty."""

    smooth: Smooth
    A: Floats
    B: Floats
    value: float = 0.0

    def times(self, Y: Floats) -> Floats:
        return -self.smooth.times(self.A, self.B, Y)

    def transposed_times(self, X: Floats) -> Floats:
        return -self.smooth.transposed_times(self.A, self.B, X)

    def sums(self) -> float:
        return 0.0

    def moved(self, A: Floats, B: Floats, b: Floats | float) -> Quadratic:
        return Quadratic(self.smooth, A, B)

    def curvature(self) -> float:
        return self.smooth.average


@dataclass(frozen=True)
class QuadraticTerm:
    """½⟨W, 𝓛W⟩."""

    smooth: Smooth

    def at(self, X: Floats, V: Floats, b: Floats | float) -> Quadratic:
        return Quadratic(self.smooth, X, V, self.smooth.value(X, V))


# ---- the solver ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Warm:
    """The last solution."""

    V: Floats
    b: Floats | float


class Generic:
    """Inner solver for all that is convex, by products alone."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        T = problem.shape[1]
        self.problem, self.n_threads, self.scale = problem, n_threads, problem.row_scale
        self.q: Floats = (np.ones(T) if problem.column_weights is None else problem.column_weights)[:, None]
        self.loss = LossTerm(problem, n_threads)
        self.terms: list[Term] = [self.loss]
        structure = problem.structure
        if isinstance(structure, SoftBox):
            self.terms.append(BoundsTerm(problem, structure, n_threads))
        if isinstance(structure, Smooth):
            self.terms.append(QuadraticTerm(structure))
        self.warm: Warm | None = None

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        if not isinstance(problem.data, Measurement):
            return "needs a measurement of W"
        if not isinstance(problem.structure, SoftBox | Smooth | None):
            return f"needs bounds that are softened, or none; the problem has {problem.structure!r}"
        return Newton.smooth(problem)

    def free(self) -> None:
        """Nothing is kept."""

    def solve(self, U: Floats) -> GenericSolution:
        X, shape = U * self.scale, (len(self.q), U.shape[1])
        warm = self.warm
        start = warm if warm is not None and warm.V.shape == shape else self._nothing(shape)
        point = self._point(X, start.V, start.b)
        if not math.isfinite(point.value):  # the last solution is too far away
            none = self._nothing(shape)
            point = self._point(X, none.V, none.b)
        before = math.inf
        for count in range(MOST_STEPS):
            look()
            descent = point.descent()
            system = System(point)
            step = system.solve(descent, EXACT)
            decrement = _inner(step, descent)
            size = point.size()
            settled = decrement <= SETTLED**2 * size and decrement >= before
            if not decrement > ENOUGH**2 * size or settled:
                break
            before = decrement
            moved = self._go(point, step, decrement, UPHILL if count < CAUTIOUS else 0.0)
            if moved is None:
                break
            point = moved
        self.warm = Warm(point.V, point.b)
        return GenericSolution(self, U, point, system)

    def _nothing(self, shape: tuple[int, int]) -> Warm:
        return Warm(np.zeros(shape), np.zeros(shape[0]) if self.loss.data.intercept else 0.0)

    def _point(self, X: Floats, V: Floats, b: Floats | float) -> Point:
        return Point(self, X, V, b)

    def _go(self, point: Point, step: Step, decrement: float, uphill: float) -> Point | None:
        """The point at the end of a step, or near the lowest one along it; None if rounding errors hide it."""
        length, high = 1.0, math.inf
        for count in range(MOST_TRIALS):
            look()
            trial = self._point(point.X, point.V + length * step[0], point.b + length * step[1])
            here = -_inner(step, trial.descent())
            if here <= uphill * decrement:
                return trial
            high = length
            guess = high * decrement / (decrement + here) if math.isfinite(here) else 0.0
            length = min(max(guess, 0.1 * high), 0.9 * high) if count < NEAR_TRIALS else 0.1 * high
        return None


Step = tuple[Floats, Floats | float]


def _inner(one: Step, other: Step) -> float:
    return float(np.vdot(one[0], other[0])) + float(np.sum(one[1] * other[1]))


class Point:
    """All terms at one V and b."""

    def __init__(self, solver: Generic, X: Floats, V: Floats, b: Floats | float) -> None:
        self.solver, self.X, self.V, self.b = solver, X, V, b
        self.states = [term.at(X, V, b) for term in solver.terms]
        self.square = float(np.sum(solver.q * V * V))
        of_intercepts = FREE * float(np.sum(np.square(b)))
        self.value = sum(state.value for state in self.states) + 0.5 * (self.square + of_intercepts)

    def descent(self) -> Step:
        """SᵀX − q V, and the sums of the columns for the intercepts."""
        of_V = sum((s.transposed_times(self.X) for s in self.states), -self.solver.q * self.V)
        return of_V, sum(s.sums() for s in self.states) - FREE * self.b

    def moved(self, A: Floats, B: Floats, b: Floats | float) -> list[Moved]:
        return [s.moved(A, B, b) for s in self.states]

    def size(self) -> float:
        """Of the solution, in the norm of the Hessian."""
        loss = self.states[0]
        assert isinstance(loss, LossState)
        return self.square + float(loss.D @ (loss.w * loss.w))


class System:
    """The Hessian at a point, and its inverse by conjugate gradients."""

    def __init__(self, point: Point) -> None:
        self.point, solver = point, point.solver
        curvature = sum((np.asarray(s.curvature()) for s in point.states), np.zeros(len(point.V)))
        values, self._vectors = np.linalg.eigh(point.X.T @ point.X)
        self._inverse: Floats = 1.0 / (solver.q + curvature[:, None] * np.maximum(values, 0.0))
        loss = point.states[0]
        assert isinstance(loss, LossState)
        self._of_intercepts: Floats | float = 0.0
        if loss.data.intercept:
            sums = loss.data.sums_by_column(loss.D)
            self._of_intercepts = 1.0 / (sums + FREE)

    def _product(self, x: Step) -> Step:
        look()
        moved = self.point.moved(self.point.X, x[0], x[1])
        of_V = sum((-m.transposed_times(self.point.X) for m in moved), self.point.solver.q * x[0])
        return of_V, sum(-m.sums() for m in moved) + FREE * x[1]

    def _precondition(self, x: Step) -> Step:
        return ((x[0] @ self._vectors) * self._inverse) @ self._vectors.T, self._of_intercepts * x[1]

    def solve(self, right_side: Step, tolerance: float) -> Step:
        x: Step = np.zeros_like(right_side[0]), 0.0 * right_side[1]
        residual, z = right_side, self._precondition(right_side)
        direction, rz = z, _inner(right_side, z)
        target = tolerance**2 * rz
        for _ in range(MOST_PRODUCTS):
            if not rz > target:
                break
            product = self._product(direction)
            bend = _inner(direction, product)
            if not bend > 0:
                break
            alpha = rz / bend
            x = x[0] + alpha * direction[0], x[1] + alpha * direction[1]
            residual = residual[0] - alpha * product[0], residual[1] - alpha * product[1]
            z = self._precondition(residual)
            rz, before = _inner(residual, z), rz
            direction = z[0] + (rz / before) * direction[0], z[1] + (rz / before) * direction[1]
        return x


class GenericSolution:
    """The inner problem solved at one U."""

    def __init__(self, solver: Generic, U: Floats, point: Point, system: System) -> None:
        self._solver, self._U, self._point, self._system = solver, U, point, system
        self.V, self.value = point.V, point.value
        self.paid = sum(s.value for s in point.states[1:] if isinstance(s, BoundsState))
        self.gradient: Floats = -solver.scale * sum(s.times(point.V) for s in point.states)

    def intercepts(self) -> Floats | None:
        return self._point.b if isinstance(self._point.b, np.ndarray) else None

    def derivative(self, xi: Floats) -> Floats:
        solver, point = self._solver, self._point
        dX = solver.scale * xi
        along = point.moved(dX, point.V, 0.0)
        of_V = sum((m.transposed_times(point.X) for m in along), np.zeros_like(point.V))
        of_V = sum((s.transposed_times(dX) for s in point.states), of_V)
        dV, db = self._system.solve((of_V, sum(m.sums() for m in along) + 0.0 * point.b), EXACT)
        moved = point.moved(np.hstack([dX, point.X]), np.hstack([point.V, dV]), db)
        total = sum(m.times(point.V) for m in moved) + sum(s.times(dV) for s in point.states)
        return np.asarray(-solver.scale * total)

    def preconditioner(self) -> Callable[[Floats], Floats]:
        """All rows are solved with κ VᵀV + |V|² I, for the curvature κ of an entry on the average."""
        V, point = self.V, self._point
        kappa = float(np.mean(sum(np.asarray(s.curvature()) for s in point.states)))
        B = kappa * V.T @ V + max(point.square, np.finfo(float).tiny) * np.eye(V.shape[1])
        inverse = np.linalg.inv(B)
        inverse = 0.5 * (inverse + inverse.T)
        return lambda eta: eta @ inverse

    def dual(self) -> Floats:
        loss = self._point.states[0]
        assert isinstance(loss, LossState)
        return loss.z

    def multipliers(self) -> Multipliers | None:
        bounds = next((s for s in self._point.states if isinstance(s, BoundsState)), None)
        return None if bounds is None else Multipliers(bounds.entries, bounds.values)

    def within_bounds(self) -> tuple[Floats, Kept] | None:
        """U, and a V nearby that keeps the bounds, where those of the problem are soft; else None."""
        solver, structure = self._solver, self._solver.problem.structure
        if not isinstance(structure, SoftBox):
            return None
        box, X, V, scale = structure.box, self._point.X, self.V, solver.scale
        lower, upper = box.planes(solver.problem.shape)
        found: list[tuple[Floats, Floats]] = [(X, nearest(X, V, lower, upper, solver.n_threads))]
        found.append((nearest(V, X, lower.T, upper.T, solver.n_threads), V))
        drawn = drawn_inward(box, X, V, lambda X, V: self._kept(X, V).value)
        found += [] if drawn is None else [drawn]
        kept = []
        for left, right in found:
            beyond, most = within_reach(left, right, lower, upper)
            if beyond <= most and np.isfinite(left).all() and np.isfinite(right).all():
                kept.append((left, right))
        if not kept:
            return self._U, Kept(V, math.inf, self.intercepts())
        each = [(self._kept(left, right), left) for left, right in kept]
        best, left = min(each, key=lambda one: one[0].value)
        size = float(np.linalg.norm(left / scale)) or 1.0
        return left / scale / size, Kept(best.V * size, best.value, best.b)

    def _kept(self, X: Floats, V: Floats) -> Kept:
        solver = self._solver
        size = float(np.linalg.norm(X / solver.scale)) or 1.0
        value = solver.loss.at(X, V, self._point.b).value + 0.5 * float(np.sum(solver.q * (V * size) ** 2))
        return Kept(V, value, self.intercepts())

    def release(self) -> None:
        """Nothing is kept for the next one."""


class Kept:
    """A V that keeps the bounds: an answer, but not a solution of the inner problem, so it has no derivatives."""

    paid = 0.0

    def __init__(self, V: Floats, value: float, b: Floats | None) -> None:
        self.V, self.value, self.b = V, value, b
        self.gradient: Floats = np.full_like(V, np.nan)

    def intercepts(self) -> Floats | None:
        return self.b

    def multipliers(self) -> None:
        return None

    def release(self) -> None:
        """Nothing is kept for the next one."""

    def derivative(self, xi: Floats) -> Floats:
        raise TypeError("a matrix that was moved into its bounds has no derivative")

    def preconditioner(self) -> Callable[[Floats], Floats]:
        raise TypeError("a matrix that was moved into its bounds has no preconditioner")

    def dual(self) -> Floats:
        raise TypeError("a matrix that was moved into its bounds has no dual variables")
