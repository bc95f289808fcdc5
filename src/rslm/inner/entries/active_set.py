"""Entries with bounds on all of W: one bounded regression per column, with few active bounds.

With x_j = u_j/√p_j for all rows j, column t is

    v_t = argmin_v Σ_i ℓ(y_i, x_iᵀv) + (q_t/2C) |v|²     with lower_jt ≤ x_jᵀv ≤ upper_jt,

or, where the bounds are softened by ε, with (1/2ε) Σ_j distance² added (`structures.soft_box`). An active bound acts as
one more entry of the column, with s = distance/ε and the curvature 1/ε; the multipliers are a = C s. With hard bounds,
the limit of large curvature, s keeps x_jᵀv at the bound, also when U changes.

With a location, the row effects are subtracted from the bounds, so that the pinned coordinate of V takes no part.

For a quadratic loss this is one quadratic problem. For other losses there is one in every Newton step: its centre is
the Newton point, its matrix the Hessian of the column. Along such a step the objective of the column is convex; the
full step is taken if the objective does not rise at its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from rslm.inner.base import ColumnsSolution
from rslm.inner.entries.leverage import leverages
from rslm.inner.entries.newton import sums_of
from rslm.inner.entries.weighted import STIFFEST, WeightedColumns, sums_by_column
from rslm.inner.kept import nearest, worst_violation
from rslm.inner.newton_steps import ENOUGH, SETTLED, UPHILL
from rslm.inner.obstacles import has_kinks, not_entries
from rslm.kernels import Bound, Columns, Factors, Piece, bound, padded
from rslm.kernels.scratch import scratch_like
from rslm.losses.checked import CheckedLoss
from rslm.problem import Problem
from rslm.runtime.interrupts import current_interrupt, raise_if_stopped
from rslm.runtime.threads import in_threads
from rslm.runtime.types import Floats, Indices64
from rslm.structures import Multipliers, SoftBox

PIECE = 1 << 17  # entries that a thread works on at a time
CELLS = 1 << 18  # entries of W that are in memory at a time
NARROW = 0.05  # a line search ends when the interval with the minimum is this small relative to its end
MOST_STEPS, NEAR_TRIALS, MOST_TRIALS = 100, 5, 13
TINY, MOST_TINY = 1e-4, 2  # step lengths that make no progress; a column gives up after this many of them
MOST_CYCLING = 15  # full steps that are not half as long as the shortest one before: rounding errors make cycles
FAR = 3  # a point is given up if it violates this many times more bounds than there are entries and active bounds


class ActiveSet(WeightedColumns):
    """Inner solver for bounds, with any loss that has a second derivative."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        super().__init__(problem, n_threads)
        assert problem.structure.box is not None
        self.problem = problem
        self.lower, self.upper = problem.structure.box.planes(problem.shape)
        self.loss = CheckedLoss(problem.loss)
        self.quadratic = problem.loss.quadratic
        # The systems of the square loss are divided by ℓ'' = 2: s = y − w, with the curvature 1.
        self.unit = 2.0 * self.C if self.quadratic else self.C
        self.ridge = self.q / self.unit
        self.effects: Floats | None = None  # of the rows, at the last point
        self.stiffness, self.shift, self.expected = math.inf, None, 0.0
        if problem.structure.form == "soft bounds":
            soft = cast(SoftBox, problem.structure)
            epsilon, expected = soft.softness, soft.expected
            self.stiffness = self.C / (self.unit * epsilon)
            if expected is not None:
                self.shift = expected.entries, expected.values * (epsilon / self.C)
                self.expected = float(expected.values @ expected.values) / self.unit**2
        self.warm: Bound | None = None

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        if problem.structure.box is None:
            return "needs bounds"
        if problem.location is not None and problem.location.covariates is not None:
            return "does not support covariates"
        return not_entries(problem) or has_kinks(problem)

    def solve(self, U: Floats) -> ActiveSolution:
        frame = self._frame(U)
        solution = self._solve_quadratic(frame) if self.quadratic else self._solve_smooth(frame)
        if math.isfinite(solution.value):
            self.warm = solution.bound
        return solution

    def _frame(self, U: Floats) -> Frame:
        whole = self.tail.scaled(U, self.scale)
        if not self.tail.pinned:
            return Frame(U, whole, whole, self.lower, self.upper)
        effects, X = whole[:, -1].copy(), whole.copy()
        X[:, -1] = 0.0
        if self.warm is not None and not (self.effects is not None and np.array_equal(effects, self.effects)):
            self.warm = replace(self.warm, margin=np.full(len(self.warm.V), -np.inf))  # those of other bounds
        self.effects = effects
        return Frame(U, X, whole, _lowered(self.lower, effects), _lowered(self.upper, effects))

    def _bound(self, frame: Frame, centre: Floats, factors: Factors, before: Bound | None) -> Bound:
        # The first point is never given up, however far it is: there is no other to return to.
        never = self.warm is None or self.stiffness == math.inf
        most = None if before is None or never else FAR * (len(before.s) + len(self.y))
        stiffness, threads = self.stiffness, self.n_threads
        if self.tail.pinned:  # any number will do: the coordinate is not coupled to others
            factors.pin(1.0)
        b = bound(frame.X, centre, factors, frame.lower, frame.upper, stiffness, threads, before, self.shift, most)
        if self.tail.pinned:
            factors.pin(0.0)
        return b

    def begin_at(self, U: Floats, V: Floats) -> None:
        """Warm-start the next solution from V, without any active bounds."""
        self.warm = Bound.nothing(self._frame(U).X, V)

    def _solve_quadratic(self, frame: Frame) -> ActiveSolution:
        scratch = self.spare.pop() if self.spare else (None, None)
        y, ridges, threads = self.y, self.ridges(frame.X.shape[1]), self.n_threads
        centre, factors = self.columns.regress(
            y, frame.whole, ridges, threads, scratch[1], weight=self.weights, pinned=self.tail.pinned
        )
        b = self._bound(frame, centre, factors, self.warm)
        squares, residual, by_rows = self.columns.residuals(
            y, frame.whole, b.V, threads, scratch[0], weight=self.weights
        )
        return ActiveSolution(self, frame, b, residual, self.weights, factors, squares, by_rows)

    def _solve_smooth(self, frame: Frame) -> ActiveSolution:
        with np.errstate(all="ignore"):  # overflow means that a step is too long
            return SmoothColumns(self, frame).solve()


@dataclass(frozen=True)
class Frame:
    """The rows of U and the bounds at one point, both relative to the row effects."""

    U: Floats
    X: Floats
    whole: Floats  #: X and, as its last column, the row effects, if there are any
    lower: Floats
    upper: Floats


def _lowered(plane: Floats, offset: Floats) -> Floats:
    """The bounds minus the row effects; a plane whose columns are equal stays one in memory."""
    if plane.strides[1] == 0:
        return np.broadcast_to(plane[:, :1] - offset[:, None], plane.shape)
    return np.asarray(plane - offset[:, None])


class ActiveSolution(ColumnsSolution):
    """V, s and D of the observed entries, and the active bounds, at one U."""

    def __init__(
        self,
        solver: ActiveSet,
        frame: Frame,
        b: Bound,
        s: Floats,
        curvature: Floats | None,
        factors: Factors,
        loss: float,
        by_rows: Floats,
    ) -> None:
        self.solver, self.frame, self.bound, self.V = solver, frame, b, b.V
        self._s: Floats | None = s
        self._D, self._factors = curvature, factors
        self.weighted_square = solver.tail.square(solver.q, b.V)  # ‖UᵀS‖²
        self.violation_cost = 0.5 * solver.unit * (float(b.s @ b.s) - solver.expected) / solver.stiffness
        self.value = solver.C * loss + 0.5 * self.weighted_square + self.violation_cost + solver.tail.cost(b.V)
        if b.excess.any():  # for some column there is no v within the bounds
            self.value = math.inf
        total = by_rows + b.entries.scatter(b.s, b.V, solver.n_threads)
        self.gradient: Floats = solver.tail.scaled(-solver.unit * total, solver.scale)

    @property
    def s(self) -> Floats:
        if self._s is None:
            raise RuntimeError("this evaluation has been released; evaluate the point again")
        return self._s

    def derivative(self, xi: Floats) -> Floats:
        solver, s, b = self.solver, self.s, self.bound
        at, threads = b.entries, solver.n_threads
        dX = solver.tail.scaled(xi, solver.scale)
        moved = at.predict(dX, self.V, threads)
        order, by_rows = at.row_order, at.by_rows
        # The contribution of the bounds to the right-hand side, ẋ s − x weight ẋᵀv; it is overwritten by v̇.
        dV = by_rows.scatter(b.s[order], dX, threads) - by_rows.scatter((b.weight * moved)[order], b.X, threads)
        out = solver.columns.weighted_derivative(s, self._D, b.X, self.V, self._factors, dX, threads, dV)
        out += at.scatter(b.weight * (moved + at.predict(b.X, dV, threads)), self.V, threads)
        out -= at.scatter(b.s, dV, threads)
        return solver.tail.scaled(solver.unit * out, solver.scale)

    def _row_factors(self, more: tuple[Columns, Floats] | None) -> Factors:
        """Factors of Σ_t D_it v_t v_tᵀ + p_i ‖UᵀS‖²/C for every row i, with `more` entries if they are given."""
        solver, _ = self.solver, self.s  # raises an error if it has been released
        ridges = solver.row_ridges(max(self.weighted_square, np.finfo(float).tiny), self.V.shape[1])
        D = None if self._D is None else self._D[solver.columns.row_order]
        return solver.columns.by_rows.factorise(self.V, ridges, solver.n_threads, D, more=more)

    def column_curvature(self) -> Floats:
        columns, D = self.solver.columns, self._D
        return self.solver.unit * (np.diff(columns.indptr) if D is None else sums_by_column(columns, D))

    def preconditioner(self) -> Callable[[Floats], Floats]:
        """Row i is solved with B_i = (C/p_i) Σ_t D_it v_t v_tᵀ + ‖UᵀS‖² I, where active bounds count as entries."""
        solver, at = self.solver, self.bound.entries
        return solver.solved_rows(self._row_factors((at.by_rows, self.bound.weight[at.row_order])))

    def row_curvature(self, typical: float | None = None, bounds: bool = True) -> tuple[Floats, float]:
        """(C/p_i) Σ_t D_it v_t v_tᵀ of every row, where active `bounds` count as entries, and ‖UᵀS‖²."""
        solver, at = self.solver, self.bound.entries
        D = None if self._D is None else self._D[solver.columns.row_order]
        grams = solver.columns.by_rows.grams(self.V, solver.n_threads, D)
        if bounds:
            grams += at.by_rows.grams(self.V, solver.n_threads, self.bound.weight[at.row_order])
        return solver.blocks_of_rows(grams), self.weighted_square

    def within_bounds(self) -> tuple[Floats, ActiveSolution]:
        """U with its rows moved into the bounds, and the columns solved there with hard bounds.

        Moving only columns suffices where no row is small. A small row that almost keeps its bounds needs only a small
        change, but a column may have to move far to keep the bounds of such a row, and vice versa. So first those
        columns are moved that cost less than the rows whose bounds they violate, then the rows.
        """
        solver, X = self.hard_solver(), self.bound.X
        if solver.tail.width:  # column effects can move every column into the bounds, unless the row effects are large
            return self.frame.U, solver.solve(self.frame.U).moved_inside()

        def rows(V: Floats) -> Bound:
            return moved_within(V, X, self._row_factors(None), solver.lower.T, solver.upper.T, solver.n_threads)

        V = self.moved_columns(costs_of_moving(rows(self.V), X), solver)
        U = rows(V).V / solver.scale
        size = float(np.linalg.norm(U))
        if size > 0.0:  # otherwise all rows were moved to 0
            solver.begin_at(U / size, V * size)
            kept = U / size, solver.solve(U / size).moved_inside()
            if math.isfinite(kept[1].value):
                return kept
        solver.warm = None
        flat = constant(solver.problem, X, self.V)
        return flat, solver.solve(flat).moved_inside()

    def moved_inside(self) -> ActiveSolution:
        """This solution if it keeps its hard bounds, else one nearby that does; if there is none, its value is ∞."""
        solver, X = self.solver, self.bound.X
        frame = self.frame
        violation, allowed = worst_violation(X, self.V, frame.lower, frame.upper)
        if violation <= allowed or not math.isfinite(self.value):
            return self
        V = nearest(X, self.V, frame.lower, frame.upper, solver.n_threads)
        if solver.tail.pinned:
            V[:, -1] = 1.0
        violation, allowed = worst_violation(X, V, frame.lower, frame.upper)
        w = solver.columns.predict(frame.whole, V, solver.n_threads)
        loss = float(np.sum(solver.weighted(solver.loss("value", solver.y.astype(np.float64), w))))
        by_rows = solver.columns.scatter(self.s, V, solver.n_threads)
        moved = ActiveSolution(solver, frame, replace(self.bound, V=V), self.s, self._D, self._factors, loss, by_rows)
        if not violation <= allowed:
            moved.value = math.inf
        return moved

    def hard_solver(self) -> ActiveSet:
        """The solver of the problem with hard bounds."""
        solver = self.solver
        if solver.stiffness == math.inf:
            return solver
        box = cast(SoftBox, solver.problem.structure).hard
        hard = ActiveSet(replace(solver.problem, structure=box), solver.n_threads)
        hard.spare = solver.spare
        return hard

    def moved_columns(self, costs_of_rows: Floats, solver: ActiveSet | None = None) -> Floats:
        """V with those columns moved into the bounds that cost less to move than the rows whose bounds they violate.

        `costs_of_rows` is the cost of moving each row; the `solver` is the one with hard bounds.
        """
        solver = self.hard_solver() if solver is None else solver
        X, lower, upper = self.bound.X, solver.lower, solver.upper
        factors = solver.columns.factorise(X, solver.ridges(X.shape[1]), solver.n_threads, self._D)
        columns = moved_within(X, self.V, factors, lower, upper, solver.n_threads)
        del factors  # as large as the data where columns have few entries
        cheaper = costs_of_moving(columns, self.V) <= self._costs_of_rows(costs_of_rows)
        return np.where(cheaper[:, None], columns.V, self.V)

    def _costs_of_rows(self, each: Floats) -> Floats:
        """For every column, the sum of the costs of `each` row that violates its bounds there."""
        at, V, solver = self.bound.entries, self.V, self.solver
        of_column = np.repeat(np.arange(len(V)), np.diff(at.indptr))
        w = at.predict(self.bound.X, V, solver.n_threads)
        violated = (w < solver.lower[at.index, of_column]) | (w > solver.upper[at.index, of_column])
        return sums_of(np.diff(at.indptr), np.where(violated, each[at.index], 0.0))

    def left_out(self) -> Floats:
        solver, s = self.solver, self.s
        h = leverages(solver.columns, self.bound.X, self._factors, solver.n_threads)
        w = solver.columns.predict(self.frame.whole, self.V, solver.n_threads)
        rest = 1.0 - h * (1.0 if self._D is None else self._D)
        of_column = np.repeat(np.arange(len(self.V)), np.diff(solver.columns.indptr))
        lower, upper = (plane[solver.columns.index, of_column] for plane in (solver.lower, solver.upper))
        return np.asarray(np.clip(w - s * h / np.maximum(rest, STIFFEST), lower, upper))

    def dual(self) -> Floats:
        dual: Floats = np.multiply(self.s, self.solver.unit, out=scratch_like(self.s))
        return dual

    def multipliers(self) -> Multipliers:
        return Multipliers(self.bound.entries, self.solver.unit * self.bound.s)

    def release(self) -> None:
        if self._s is not None and self.solver.quadratic:
            self.solver.spare.append((self._s, self._factors))
        self._s = None


def moved_within(X: Floats, V: Floats, factors: Factors, lower: Floats, upper: Floats, threads: int) -> Bound:
    """The rows of V moved so that X Vᵀ is within hard bounds, as near as possible in the metric of the factors."""
    return bound(X, V, factors, lower, upper, math.inf, threads)


def constant(problem: Problem, X: Floats, V: Floats) -> Floats:
    """A last resort: U for a W with equal columns, or equal rows, for bounds that vary only by row or by column."""
    box = problem.structure.box
    assert box is not None
    lower, upper = box.of_rows()
    left = np.clip(X @ V.mean(axis=0), lower, upper) if box.shape[1] == 1 else np.ones(len(X))
    U = np.zeros(X.shape)
    U[:, 0] = left / np.abs(left).max() / problem.row_scale[:, 0] if left.any() else 1.0
    return np.asarray(U / np.linalg.norm(U))


def costs_of_moving(b: Bound, before: Floats) -> Floats:
    """½ (v − c)ᵀM(v − c) of every column, where c was `before`, from M(v − c) = Σ s x."""
    at = b.entries
    pushed = b.s * (at.predict(b.X, b.V, 1) - at.predict(b.X, before, 1))
    return 0.5 * sums_of(np.diff(at.indptr), pushed)


class SmoothColumns:
    """The columns of a loss that is not quadratic, solved together at one U."""

    def __init__(self, solver: ActiveSet, frame: Frame) -> None:
        X = frame.X
        T, rank = solver.columns.shape[1], X.shape[1]
        self.solver, self.frame, self.X, self.x = solver, frame, X, padded(X)
        self.ridges = solver.ridges(rank)
        ridges = np.broadcast_to(self.ridges.reshape(T, -1), (T, rank))
        self.ridge = np.where(np.isfinite(ridges), ridges, 0.0)  # a pinned coordinate has no cost
        warm = solver.warm
        known = warm is not None and warm.V.shape == (T, rank)
        self.V: Floats = warm.V.copy() if warm is not None and known else np.zeros((T, rank))
        if solver.tail.pinned:
            self.V[:, -1] = 1.0
        self.counts = np.diff(solver.columns.indptr)
        self.y = solver.y.astype(np.float64)
        self.w = self._predictions()
        self.s = self._slopes(self.w)
        if not np.isfinite(self.s).all():  # the warm start is too far away
            self.V[:, : rank - solver.tail.pinned] = 0.0
            self.w = self._predictions()
            self.s = self._slopes(self.w)
        self.factors = Factors.scratch(T, rank)

    def solve(self) -> ActiveSolution:
        solver = self.solver
        b = Bound.nothing(self.X, self.V) if solver.warm is None else solver.warm
        before, done = np.full(len(self.V), np.inf), np.zeros(len(self.V), dtype=bool)
        tiny, cycling = np.zeros((2, len(self.V)), dtype=np.int64)  # numbers of such steps
        shortest = np.full(len(self.V), np.inf)
        for count in range(MOST_STEPS):
            raise_if_stopped()
            D = solver.weighted(np.asarray(solver.loss("hessian", self.y, self.w)))
            b = solver._bound(self.frame, self.V + self._newton_steps(D), self.factors, b)
            if np.isinf(b.excess).all():  # given up: see FAR
                break
            step = b.V - self.V
            change = self._products(step)
            square = self._sums(D * change**2) + np.einsum("tk,tk,tk->t", self.ridge, step, step)
            size = self._sums(D * self.w**2) + np.einsum("tk,tk,tk->t", self.ridge, self.V, self.V)
            done |= (square <= ENOUGH**2 * size) | ((square <= SETTLED**2 * size) & (square >= before))
            # A start may violate hard bounds; then the full step is taken, wherever it leads.
            within = count > 0 or solver.stiffness < math.inf
            worth = square > SETTLED**2 * size
            length = self._lengths(b, step, change, square, worth) if within else np.ones(len(step))
            tiny += length <= TINY
            cycling += (length == 1.0) & (square > 0.25 * shortest)
            shortest = np.minimum(shortest, square)
            length[done] = 1.0  # the remaining error is due to rounding
            self.V += length[:, None] * step
            self.w = self._predictions()
            self.s = self._slopes(self.w)
            if bool((done | (tiny >= MOST_TINY) | (cycling >= MOST_CYCLING)).all()):
                break
            before = square
        loss = float(np.sum(solver.weighted(solver.loss("value", self.y, self.w))))
        by_rows = solver.columns.scatter(self.s, b.V, solver.n_threads)
        return ActiveSolution(solver, self.frame, b, self.s, D, self.factors, loss, by_rows)

    def _newton_steps(self, D: Floats) -> Floats:
        solver, columns = self.solver, self.solver.columns
        step, decrement = np.zeros(self.V.shape), np.zeros(len(self.V))

        watch = current_interrupt()

        def of_piece(piece: Piece) -> None:
            watch.raise_if_stopped()
            active = np.ones(piece.last - piece.first, dtype=np.uint8)
            columns.newton_step(piece, active, self.x, self.s, D, self.V, self.ridges, self.factors, step, decrement)

        pieces = columns.pieces(PIECE)
        if len(pieces) == 1:  # starting a thread would only cost time
            of_piece(pieces[0])
        else:
            in_threads(solver.n_threads, of_piece, pieces)
        return step

    def _lengths(self, b: Bound, step: Floats, change: Floats, square: Floats, worth: NDArray[np.bool_]) -> Floats:
        """The step length of every column: 1 unless the objective rises at the end of the step."""
        solver = self.solver
        inward = np.einsum("tk,tk,tk->t", self.ridge, self.V, step)
        outward = np.einsum("tk,tk,tk->t", self.ridge, step, step)
        length = np.ones(len(step))
        slope = inward + outward - self._sums(self._slopes(self.w + change) * change)
        if solver.stiffness < math.inf:
            push = b.s * b.entries.predict(self.X, step, solver.n_threads)
            slope -= sums_of(np.diff(b.entries.indptr), push)
        far = np.flatnonzero(~(slope <= UPHILL * square) & worth)
        low, high = np.zeros(len(step)), np.ones(len(step))  # the objective falls at low, and rises at high
        for trial in range(MOST_TRIALS):
            if not len(far):
                break
            part = 0.5 if trial < NEAR_TRIALS else np.where(low[far] > 0, 0.5, 0.1)
            length[far] = low[far] + part * (high[far] - low[far])
            mine = np.zeros(len(step), dtype=bool)
            mine[far] = True
            entries = np.flatnonzero(np.repeat(mine, self.counts))
            w = self.w[entries] + np.repeat(length[far], self.counts[far]) * change[entries]
            slopes = -np.asarray(solver.loss("gradient", self.y[entries], w)) * change[entries]
            slopes = slopes if solver.weights is None else slopes * solver.weights[entries]
            here = inward[far] + length[far] * outward[far]
            here -= sums_of(self.counts[far], slopes)
            if solver.stiffness < math.inf:
                here += self._push(far, length[far], step)
            rises = ~(here <= UPHILL * square[far])
            high[far[rises]], low[far[~rises]] = length[far[rises]], length[far[~rises]]
            narrow = high[far] - low[far] <= NARROW * high[far]
            far = far[rises & (low[far] == 0.0) | (np.abs(here) > UPHILL * square[far]) & ~narrow]
        return np.where(low > 0.0, low, length)

    def _push(self, columns: Indices64, length: Floats, step: Floats) -> Floats:
        """The slope of the cost of violating soft bounds, at a `length` along the `step` of some `columns`."""
        out, solver, shift = np.empty(len(columns)), self.solver, self.solver.shift
        some = max(CELLS // len(self.X), 1)
        for start in range(0, len(columns), some):
            raise_if_stopped()
            at = slice(start, start + some)
            mine = columns[at]
            w = (self.V[mine] + length[at, None] * step[mine]) @ self.X.T
            if shift is not None:
                for k, t in enumerate(mine):
                    own = slice(*shift[0].indptr[t : t + 2])
                    w[k, shift[0].index[own]] -= shift[1][own]
            distance = w - np.clip(w, self.frame.lower[:, mine].T, self.frame.upper[:, mine].T)
            out[at] = solver.stiffness * np.einsum("tj,tj->t", distance, step[mine] @ self.X.T)
        return out

    def _products(self, V: Floats) -> Floats:
        return self.solver.columns.predict(self.X, V, self.solver.n_threads)

    def _predictions(self) -> Floats:
        return self.solver.columns.predict(self.frame.whole, self.V, self.solver.n_threads)

    def _slopes(self, w: Floats) -> Floats:
        return -self.solver.weighted(np.asarray(self.solver.loss("gradient", self.y, w)))

    def _sums(self, values: Floats) -> Floats:
        return sums_of(self.counts, values)
