"""Smooth losses on entries: Newton's method in every column, all columns of a piece at once.

The loss is known by its functions alone, which are called for some ten thousand entries at a time; all that costs more
than O(entries) is done by kernels that do not know it. Pieces are independent, so threads share them.

Along a step the objective of a column is convex, and the slope at its end comes with the gradient that the next step
needs anyway. The whole step is taken if it goes down all the way or past the lowest point by little; else the lowest
point is looked for by the secant rule. A column is done when its Newton decrement, the distance to its optimum in the
norm of the Hessian, is negligible.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from rslm._typing import Floats, Indices64
from rslm.inner.weighted import WeightedColumns, WeightedSolution
from rslm.kernels import LANES, Factors, Piece, padded
from rslm.losses import BoxDual
from rslm.losses.checked import CheckedLoss
from rslm.problem import Problem

PIECE = 1 << 15  # entries: their temporaries stay in the cache
ENOUGH = 1e-11  # relative length of a step, in the norm of the Hessian, that is not worth taking
SETTLED = 1e-7  # a step this small that is no shorter than the one before is made of rounding errors
UPHILL = 0.1  # slope at the end of a step, beside that at its start, up to which it has not gone too far
CAUTIOUS = 10  # after so many steps not even that
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
        loss = problem.loss
        rough = isinstance(loss, BoxDual) and loss.box.smoothing == 0
        return f"needs a second derivative, {loss!r} has kinks" if rough else None

    def solve(self, U: Floats) -> NewtonSolution:
        point = NewtonPoint(self, U * self.scale, self.warm)
        if self.n_threads == 1 or len(self.pieces) == 1:
            losses = [point.solve(piece) for piece in self.pieces]
        else:
            with ThreadPoolExecutor(self.n_threads) as pool:
                losses = list(pool.map(point.solve, self.pieces))
        self.warm = point.V
        return NewtonSolution(point, math.fsum(losses))


class NewtonSolution(WeightedSolution):
    """Curvature and factors are those of the last Newton step."""

    def __init__(self, point: NewtonPoint, loss: float) -> None:
        super().__init__(point.solver, point.X, point.V, point.z, loss)
        self.curvature, self.factors = point.D, point.factors

    def make_curvature(self) -> Floats:
        return self.curvature


class NewtonPoint:
    """The regressions of all columns at one U, solved piece by piece."""

    def __init__(self, solver: Newton, X: Floats, warm: Floats | None) -> None:
        T, rank = solver.columns.shape[1], X.shape[1]
        self.solver = solver
        self.X, self.x = X, padded(X)
        self.V: Floats = warm.copy() if warm is not None and warm.shape == (T, rank) else np.zeros((T, rank))
        self.z, self.D = np.empty_like(solver.y), np.empty_like(solver.y)
        self.factors = Factors.room_for(T, rank)
        self.step, self.decrement = np.zeros((T, rank)), np.zeros(T)

    def solve(self, piece: Piece) -> float:
        """Newton steps until every column of the piece is done; returns the sum of its losses."""
        with np.errstate(all="ignore"):  # what overflows is a step that goes too far
            return NewtonPiece(self, piece).solve()


class NewtonPiece:
    """The columns of one piece: w = X v and z = −C ℓ'(y, w) of its entries are kept up to date."""

    def __init__(self, point: NewtonPoint, piece: Piece) -> None:
        s = point.solver
        self.point, self.piece, self.solver = point, piece, s
        self.y = s.y[piece.entries].astype(np.float64)
        self.V, self.q = point.V[piece.columns], s.q[piece.columns]
        self.sums = Sums(s.columns.indptr[piece.columns.start : piece.columns.stop + 1])
        self.w, self.change = np.zeros(len(self.y)), np.zeros(len(self.y))
        self.busy = np.ones(len(self.V), dtype=bool)
        s.columns.products(piece, self._active(), point.x, point.V, self.w)
        self.z = self._dual(self.w)
        self._begin_at_zero(~np.isfinite(self.sums(self.z)))

    def _begin_at_zero(self, lost: NDArray[np.bool_]) -> None:
        """Columns whose last solution is too far away, where numbers overflow."""
        if lost.any():
            self.V[lost], self.w[np.repeat(lost, self.sums.counts)] = 0.0, 0.0
            self.z = self._dual(self.w)

    def solve(self) -> float:
        point, piece, s = self.point, self.piece, self.solver
        before, lost = np.full(len(self.V), np.inf), np.zeros(len(self.V), dtype=bool)
        for count in range(MOST_STEPS):
            D = s.C * s.functions("hessian", self.y, self.w)
            point.z[piece.entries], point.D[piece.entries] = self.z, D
            active = self._active()
            s.columns.newton_step(
                piece, active, point.x, point.z, point.D, point.V, s.q, point.factors, point.step, point.decrement
            )
            decrement = point.decrement[piece.columns]
            overflow = self.busy & ~np.isfinite(decrement) & ~lost
            if overflow.any():
                lost |= overflow
                self._begin_at_zero(overflow)
                continue
            size = self.q * np.einsum("tk,tk->t", self.V, self.V) + self.sums(D * self.w * self.w)
            settled = (decrement <= SETTLED**2 * size) & (decrement >= before)
            self.busy &= (decrement > ENOUGH**2 * size) & ~settled & np.isfinite(decrement)
            if not self.busy.any():
                break
            before = decrement.copy()
            point.step[piece.columns][~self.busy] = 0.0
            self.change.fill(0.0)
            s.columns.products(piece, active, point.x, point.step, self.change)
            self._go(UPHILL if count < CAUTIOUS else 0.0)
        return math.fsum(self.sums(s.functions("value", self.y, self.w)))

    def _go(self, uphill: float) -> None:
        """Move every busy column along its step."""
        step = self.point.step[self.piece.columns]
        slope = np.where(self.busy, -self.point.decrement[self.piece.columns], 0.0)
        length = self.busy.astype(np.float64)
        low, high, slope_low = np.zeros_like(length), np.full_like(length, np.inf), slope.copy()
        inward = self.q * np.einsum("tk,tk->t", self.V, step)
        square = self.q * np.einsum("tk,tk->t", step, step)
        for _ in range(MOST_TRIALS):
            w = self.w + np.repeat(length, self.sums.counts) * self.change
            z = self._dual(w)
            here = inward + length * square - self.sums(z * self.change)
            far = self.busy & ~(here <= -uphill * slope)  # also where it is not a number
            if not far.any():
                break
            # The secant between the ends of the part that has the lowest point, not too near to either.
            high = np.where(far, length, high)
            guess = low + (high - low) * slope_low / (slope_low - here)
            inside = np.clip(np.nan_to_num(guess), low + 0.1 * (high - low), high - 0.1 * (high - low))
            length = np.where(far, inside, length)
        else:  # no length is short enough: rounding errors
            self.busy &= ~far
            length = np.where(far, 0.0, length)
            w = self.w + np.repeat(length, self.sums.counts) * self.change
            z = self._dual(w)
        self.V += length[:, None] * step
        self.w, self.z = w, z

    def _dual(self, w: Floats) -> Floats:
        return -self.solver.C * self.solver.functions("gradient", self.y, w)

    def _active(self) -> NDArray[np.uint8]:
        """The groups of eight columns with a busy one among them."""
        flags = np.zeros(-(-len(self.busy) // LANES) * LANES, dtype=bool)
        flags[: len(self.busy)] = self.busy
        return np.asarray(flags.reshape(-1, LANES).any(axis=1), dtype=np.uint8)


class Sums:
    """Sums over the entries of every column of a piece."""

    def __init__(self, indptr: Indices64) -> None:
        self.counts = np.diff(indptr)
        self._filled = self.counts > 0
        self._starts = (indptr[:-1] - indptr[0])[self._filled]

    def __call__(self, values: Floats) -> Floats:
        out = np.zeros(len(self.counts))
        if len(self._starts):
            out[self._filled] = np.add.reduceat(values, self._starts)
        return out
