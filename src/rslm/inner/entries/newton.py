"""Smooth losses on entries: Newton's method in every column, all columns of a piece at once.

Only the functions of the loss are used, and they are called for about a hundred thousand entries at a time. Everything
that costs more than O(entries) is done by kernels that do not depend on the loss. Pieces are independent, so they are
distributed over threads.

Along a step the objective of a column is convex, and the slope at its end comes with the gradient that the next step
needs anyway. The full step is taken if it does not pass the minimum along it by much; otherwise the minimum is searched
by the secant rule. A column is done when its Newton decrement, the distance to its optimum in the norm of the Hessian,
is negligible.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.inner.entries.weighted import WeightedColumns, WeightedSolution
from rslm.inner.newton_steps import CAUTIOUS, ENOUGH, SETTLED, UPHILL
from rslm.inner.obstacles import has_kinks, not_entries_alone
from rslm.kernels import LANES, Piece, padded
from rslm.kernels.scratch import scratch_like
from rslm.losses.checked import CheckedLoss
from rslm.problem import Problem
from rslm.runtime.interrupts import current_interrupt
from rslm.runtime.threads import in_threads
from rslm.runtime.types import Floats, Indices64

PIECE = 1 << 17  # entries: few NumPy calls, and temporaries so small that the system need not clear memory for them
MOST_STEPS, MOST_TRIALS = 200, 60


class Newton(WeightedColumns):
    """Inner solver for any loss with a second derivative."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        super().__init__(problem, n_threads)
        self.functions = CheckedLoss(problem.loss)
        self.pieces = self.columns.pieces(PIECE)
        self.warm: Floats | None = None  # V at the last point

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        return not_entries_alone(problem) or has_kinks(problem)

    def solve(self, U: Floats) -> NewtonSolution:
        point = NewtonPoint(self, self.scaled(U), self.warm)
        if self.n_threads == 1 or len(self.pieces) == 1:
            losses = [point.solve(piece) for piece in self.pieces]
        else:
            losses = in_threads(self.n_threads, point.solve, self.pieces)
        self.warm = point.V
        return NewtonSolution(point, math.fsum(losses))

    def begin(self, width: int) -> Floats:
        """V where a cold start begins: 0, but for the pinned coordinate."""
        V = np.zeros((self.columns.shape[1], width))
        if self.tail.pinned:
            V[:, -1] = 1.0
        return V


class NewtonSolution(WeightedSolution):
    """A solution with the curvature and the factors of the last Newton step."""

    solver: Newton

    def __init__(self, point: NewtonPoint, loss: float) -> None:
        super().__init__(point.solver, point.X, point.V, point.s, loss)
        self._D = point.D
        self.factors = point.factors

    @cached_property
    def curvature(self) -> Floats:
        return self._D

    def release(self) -> None:
        if self._s is not None:
            self.solver.spare.append((self._s, self.curvature, self.factors))
        super().release()


class NewtonPoint:
    """The regressions of all columns at one U, solved piece by piece."""

    def __init__(self, solver: Newton, X: Floats, warm: Floats | None) -> None:
        T, rank = solver.columns.shape[1], X.shape[1]
        self.solver, self.watch = solver, current_interrupt()
        self.X, self.x = X, padded(X)
        self.V: Floats = warm.copy() if warm is not None and warm.shape == (T, rank) else solver.begin(rank)
        self.ridges = np.broadcast_to(solver.ridges(rank).reshape(T, -1), (T, rank))
        scratch = solver.spare.pop() if solver.spare else None
        if scratch is None or scratch[2].rank != rank:
            # In double precision also for float32 data, because steps are compared with rounding errors.
            s, D = (scratch_like(solver.y, np.float64) for _ in range(2))
            scratch = s, D, None
        self.s: Floats = scratch[0]
        self.D: Floats = scratch[1]
        self.factors = solver.columns.new_systems(X, solver.ridges(rank), self.D, scratch[2])
        self.step, self.decrement = np.zeros((T, rank)), np.zeros(T)

    def solve(self, piece: Piece) -> float:
        """Newton steps until every column of the piece is done; returns the sum of its losses."""
        with np.errstate(all="ignore"):  # overflow means that a step is too long
            return NewtonPiece(self, piece).solve()


class NewtonPiece:
    """The columns of one piece: w = X v and s = −ℓ'(y, w) of its entries are kept up to date."""

    def __init__(self, point: NewtonPoint, piece: Piece) -> None:
        solver = point.solver
        self.point, self.piece, self.solver = point, piece, solver
        self.counts = np.diff(solver.columns.indptr[piece.columns.start : piece.columns.stop + 1])
        self.busy = np.ones(len(self.counts), dtype=bool)
        self.y = solver.y[piece.entries].astype(np.float64)
        self.w, self.change = np.zeros(len(self.y)), np.zeros(len(self.y))
        # Views of the part that belongs to the piece; the kernels take the whole arrays.
        self.V, self.step = point.V[piece.columns], point.step[piece.columns]
        ridges = point.ridges[piece.columns]
        self.ridge = np.where(np.isfinite(ridges), ridges, 0.0)  # a pinned coordinate has no cost
        self.weight = None if solver.weights is None else solver.weights[piece.entries].astype(np.float64)
        self.s, self.D, self.decrement = point.s[piece.entries], point.D[piece.entries], point.decrement[piece.columns]
        self._predict()
        self.s[:] = self._slopes(self.y, self.w, slice(None))
        self._begin_at_zero(~np.isfinite(Selection(self.counts, self.busy).sums(self.s)))

    def _begin_at_zero(self, lost: NDArray[np.bool_]) -> None:
        """Restart columns from 0 whose warm start is so far away that numbers overflow."""
        if lost.any():
            at = Selection(self.counts, lost)
            self.V[at.columns] = self.solver.begin(self.V.shape[1])[:1]
            self._predict()
            self.s[at.entries] = self._slopes(self.y[at.entries], self.w[at.entries], at.entries)

    def _predict(self) -> None:
        """Set w for the present V, which includes row effects; what covariates add to predictions comes on top."""
        self.solver.columns.products(self.piece, self._active(), self.point.x, self.point.V, self.w)
        if self.solver.offset is not None:
            self.w += self.solver.offset[self.piece.entries]

    def solve(self) -> float:
        point, piece, solver = self.point, self.piece, self.solver
        at = Selection(self.counts, self.busy)
        before, lost = np.full(len(self.V), np.inf), np.zeros(len(self.V), dtype=bool)
        for count in range(MOST_STEPS):
            point.watch.raise_if_stopped()
            w = self.w[at.entries]
            D = self._weighted(solver.functions("hessian", self.y[at.entries], w), at.entries)
            self.D[at.entries] = D
            active = self._active()
            solver.columns.newton_step(
                piece,
                active,
                point.x,
                point.s,
                point.D,
                point.V,
                solver.ridges(point.V.shape[1]),
                point.factors,
                point.step,
                point.decrement,
            )
            overflow = self.busy & ~np.isfinite(self.decrement) & ~lost
            if overflow.any():
                lost |= overflow
                self._begin_at_zero(overflow)
                continue
            V, decrement = self.V[at.columns], self.decrement[at.columns]
            size = np.einsum("tk,tk,tk->t", self.ridge[at.columns], V, V) + at.sums(D * w * w)
            settled = (decrement <= SETTLED**2 * size) & (decrement >= before[at.columns])
            self.busy[at.columns] &= (decrement > ENOUGH**2 * size) & ~settled & np.isfinite(decrement)
            before[at.columns] = decrement
            if not self.busy.any():
                break
            if 2 * np.count_nonzero(self.busy) < len(decrement):
                at = Selection(self.counts, self.busy)
            self.step[~self.busy] = 0.0
            solver.columns.products(piece, active, point.x, point.step, self.change)
            self._move(at, UPHILL if count < CAUTIOUS else 0.0)
        return float(np.sum(self._weighted(solver.functions("value", self.y, self.w), slice(None))))

    def _move(self, at: Selection, uphill: float) -> None:
        """Move every busy column along its step."""
        y, before, change = self.y[at.entries], self.w[at.entries], self.change[at.entries]
        step, busy, slope = self.step[at.columns], self.busy[at.columns], -self.decrement[at.columns]
        inward = np.einsum("tk,tk,tk->t", self.ridge[at.columns], self.V[at.columns], step)
        square = np.einsum("tk,tk,tk->t", self.ridge[at.columns], step, step)
        length, high = busy.astype(np.float64), np.full(len(busy), np.inf)
        for _ in range(MOST_TRIALS):
            w = before + np.repeat(length, at.counts) * change
            s = self._slopes(y, w, at.entries)
            here = inward + length * square - at.sums(s * change)
            far = busy & ~(here <= -uphill * slope)  # also if it is NaN
            if not far.any():
                break
            # The secant rule between the start and a length that is too long, kept away from both.
            high = np.where(far, length, high)
            guess = np.nan_to_num(high * slope / (slope - here))
            length = np.where(far, np.clip(guess, 0.1 * high, 0.9 * high), length)
        else:  # no length is short enough, because of rounding errors
            self.busy[at.columns] &= ~far
            length = np.where(far, 0.0, length)
            w = before + np.repeat(length, at.counts) * change
            s = self._slopes(y, w, at.entries)
        self.V[at.columns] += length[:, None] * step
        self.w[at.entries], self.s[at.entries] = w, s

    def _slopes(self, y: Floats, w: Floats, entries: Any) -> Floats:
        return -self._weighted(self.solver.functions("gradient", y, w), entries)

    def _weighted(self, values: Floats, entries: Any) -> Floats:
        return values if self.weight is None else values * self.weight[entries]

    def _active(self) -> NDArray[np.uint8]:
        """A flag for every group of eight columns: whether one of them is busy."""
        flags = np.zeros(-(-len(self.busy) // LANES) * LANES, dtype=bool)
        flags[: len(self.busy)] = self.busy
        return np.asarray(flags.reshape(-1, LANES).any(axis=1), dtype=np.uint8)


class Selection:
    """Some columns of a piece, with their entries, and sums over the entries of each."""

    def __init__(self, counts: Indices64, chosen: NDArray[np.bool_]) -> None:
        everything = bool(chosen.all())
        self.columns: Any = slice(None) if everything else np.flatnonzero(chosen)
        self.entries: Any = slice(None) if everything else np.flatnonzero(np.repeat(chosen, counts))
        self.counts = counts[self.columns]

    def sums(self, values: Floats) -> Floats:
        return sums_of(self.counts, values)


def sums_of(counts: Indices64, values: Floats) -> Floats:
    """The sum of the first counts[0] values, of the next counts[1], and so on."""
    filled = counts > 0
    starts = (np.cumsum(counts) - counts)[filled]
    out = np.zeros(len(counts))
    if len(starts):
        out[filled] = np.add.reduceat(values, starts)
    return out
