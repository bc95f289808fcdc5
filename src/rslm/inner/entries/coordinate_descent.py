"""Losses whose dual variable lies in an interval, on entries: coordinate ascent in the dual of every column.

The dual variable of an entry is z = C s with s in its interval. Where s is free, it is proportional to the error: the
curvature is D = 1/δ there and 0 elsewhere. With δ = 0, the limit of large D, the errors of the free entries are 0 and
stay 0 when U changes.
"""

from __future__ import annotations

import math
from dataclasses import astuple, replace
from functools import cached_property

import numpy as np

from rslm.inner.entries.weighted import WeightedColumns, WeightedSolution
from rslm.inner.obstacles import has_effects, not_entries_alone
from rslm.kernels import box_curvature
from rslm.kernels.scratch import scratch_like
from rslm.problem import Problem
from rslm.runtime.log import logger
from rslm.runtime.types import Floats

UNSOLVED = 1e-8  # relative duality gap of a column above which it is logged
BROAD = 1.1  # in medians of the errors; not 1, because rounding would decide on which side the median itself is
STIFF = 1e8  # D |x|² over the ridge where δ = 0: its inverse and its product with rounding errors are negligible


class CoordinateDescent(WeightedColumns):
    """Inner solver for piecewise linear and piecewise quadratic losses."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        super().__init__(problem, n_threads)
        assert problem.loss.interval is not None
        self.interval = problem.loss.interval
        self.warm: Floats | None = None  # s at the last point

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        if problem.loss.interval is not None:
            return not_entries_alone(problem) or has_effects(problem)
        return f"needs a BoxDual loss, {problem.loss!r} is not"

    def solve(self, U: Floats) -> BoxSolution:
        X = self.scaled(U)
        s, error = self.spare.pop() if self.spare else (scratch_like(self.y), scratch_like(self.y))
        s[:] = 0.0 if self.warm is None else self.warm
        solved = self.columns.solve_box(self.y, X, 1.0 / self.ridge, astuple(self.interval), s, error, self.n_threads)
        self.warm = s
        if (given_up := np.count_nonzero(solved.gap > UNSOLVED * np.abs(solved.value))) > 0:
            logger.info("%d of %d columns have a relative duality gap above %g", given_up, len(solved.gap), UNSOLVED)
        loss = math.fsum(solved.value - 0.5 * self.ridge * np.einsum("tk,tk->t", solved.V, solved.V))
        return BoxSolution(self, X, solved.V, s, error, loss)


class BoxSolution(WeightedSolution):
    """A solution with the errors, which determine the curvature of every entry."""

    solver: CoordinateDescent

    def __init__(self, solver: CoordinateDescent, X: Floats, V: Floats, s: Floats, error: Floats, loss: float) -> None:
        super().__init__(solver, X, V, s, loss)
        self.error = error

    @cached_property
    def curvature(self) -> Floats:
        solver, interval = self.solver, self.solver.interval
        if interval.rounding > 0:
            return box_curvature(solver.y, self.error, astuple(interval), solver.n_threads)
        squares = np.einsum("ik,ik->i", self.X, self.X)
        stiff = STIFF * float(np.mean(solver.ridge)) / max(float(np.mean(squares)), 1e-150)  # for tiny U
        return np.where(interval.free(solver.y, self.s), solver.y.dtype.type(stiff), solver.y.dtype.type(0.0))

    def broad_curvature_by_rows(self, typical: float | None = None) -> Floats:
        """The curvature with the kinks rounded so much that about half of the errors are in the rounded part.

        Few errors are within a small δ of a kink, but a step takes many of them across it. Their average curvature
        along the step is the same as with the wider rounding, and that is what a preconditioner needs.
        """
        solver, interval = self.solver, self.solver.interval
        typical = interval.typical(solver.y, self.error) if typical is None else typical
        wide = BROAD * typical / interval.reach  # 0 where the interval is unbounded
        broad = replace(interval, rounding=max(wide, interval.rounding))
        if broad.rounding == 0.0:
            return super().broad_curvature_by_rows(typical)
        return box_curvature(solver.y, self.error, astuple(broad), solver.n_threads, solver.columns.row_order)

    def release(self) -> None:
        if self._s is not None and self._s is not self.solver.warm:
            self.solver.spare.append((self._s, self.error))
        super().release()
