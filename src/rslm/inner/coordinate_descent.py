"""Losses that are given by a box of their dual variables, on entries: coordinate ascent in the dual of every column.

The dual variable of an entry is z = C s with s in its interval. Where s is free, it follows the error: the curvature is
D = C/δ there and 0 elsewhere. With δ = 0 the errors of the free entries vanish and stay so when U moves, which is the
limit of large D.
"""

from __future__ import annotations

import math

import numpy as np

from rslm._typing import Floats
from rslm.inner.weighted import WeightedColumns, WeightedSolution
from rslm.losses import BoxDual
from rslm.problem import Problem

STIFF = 1e8  # D beside q/|x|² where δ = 0: its inverse and its product with the rounding error are both negligible
SAMPLE = 20_000  # errors that are looked at for their median


class CoordinateDescent(WeightedColumns):
    """Inner solver for piecewise linear and piecewise quadratic losses."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        super().__init__(problem, n_threads)
        assert isinstance(problem.loss, BoxDual)
        self.box = problem.loss.box
        self.warm: Floats | None = None  # s at the last point

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        return None if isinstance(problem.loss, BoxDual) else f"needs a BoxDual loss, {problem.loss!r} is not"

    def solve(self, U: Floats) -> BoxSolution:
        X = U * self.scale
        s = np.zeros_like(self.y) if self.warm is None else self.warm.copy()
        box = self.box
        solved = self.columns.solve_box(
            self.y,
            X,
            self.C / self.q,
            (box.lower, box.upper, box.mirrored, box.epsilon, box.smoothing),
            s,
            self.n_threads,
        )
        self.warm = s
        penalty = np.einsum("t,tk,tk->t", self.q, solved.V, solved.V) / (2.0 * self.C)
        return BoxSolution(self, X, solved.V, s, math.fsum(solved.value - penalty))


class BoxSolution(WeightedSolution):
    """The dual variables tell which entries are free."""

    solver: CoordinateDescent

    def __init__(self, solver: CoordinateDescent, X: Floats, V: Floats, s: Floats, loss: float) -> None:
        super().__init__(solver, X, V, solver.C * s, loss)
        self._s = s

    def make_curvature(self) -> Floats:
        solver, box = self.solver, self.solver.box
        if box.smoothing > 0:
            stiff = solver.C / box.smoothing
        else:
            squares = np.einsum("ik,ik->i", self.X, self.X)
            stiff = STIFF * float(np.mean(solver.q)) / max(float(np.mean(squares)), np.finfo(float).tiny)
        return np.where(box.free(solver.y, self._s), solver.y.dtype.type(stiff), solver.y.dtype.type(0.0))

    def make_broad_curvature(self) -> Floats:
        """The curvature with the kinks rounded so far that half of the errors feel it.

        Few errors are within a small δ of a kink, but a step takes many across one. What they feel of it on the average
        is the same, and that is what a preconditioner needs.
        """
        solver, box = self.solver, self.solver.box
        w = solver.columns.predict(self.X, self.V, solver.n_threads)
        beyond = np.abs(solver.y - w) - box.epsilon
        sample = beyond[:: len(beyond) // SAMPLE + 1]
        width = float(np.median(sample[sample > 0])) if (sample > 0).any() else 0.0
        if not width > box.reach * box.smoothing:  # also where the box has no end
            return self.curvature
        return np.where((beyond > 0) & (beyond < width), solver.C * box.reach / width, 0.0).astype(
            solver.y.dtype, copy=False
        )
