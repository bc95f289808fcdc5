"""Dual variables that are feasible where parts of the location are not penalised.

The mean requires Σ z = 0, row effects without penalty S 1 = 0, column effects Sᵀa = 0, and covariates Xᵀz = 0, with
S = M*z plus the multipliers of bounds. At a solution this holds up to the tolerance of the solver. z is corrected by a
combination of effects, by least squares in a metric in which those z hardly move that are near the end of the domain of
the conjugate. A certificate then scales z down into that domain, which it may leave by a little.

A violation of these constraints is one array: of the rows, of the mean and of the covariates, which are sums over all
columns, and then of the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rslm.evaluation.dual import BLOCK, Duals
from rslm.kernels import Columns
from rslm.kernels.scratch import scratch_like
from rslm.linalg.conjugate_gradients import conjugate_gradients
from rslm.location import Location
from rslm.losses.checked import CheckedLoss
from rslm.problem import Problem
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats, Indices64

EXACT, MOST = 1e-7, 2000  # relative residual and number of steps of conjugate gradients
PASSES = 3  # the second and the third remove the violation that the first one leaves
ROUNDING = 10.0  # of a sum, relative to that of one number
LITTLE = 1e-5  # by how much z may be scaled down without making the dual value useless
WRONG = 1e-8  # norm of violated constraints relative to that of z, above which the dual value would be no bound
STIFF = 1e-6  # least room of a dual variable, relative to the largest

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Change:
    """All that is done to dual variables to make them feasible, in this order."""

    lost: Flags | None = None  #: constraints whose dual variables are 0
    largest: float | None = None  #: the largest room of a dual variable; None before it is measured
    x: Floats | None = None  #: the combination of effects that is subtracted
    sides: tuple[Floats, Floats] | None = None  #: sums for `Correction.scale`
    nothing: bool = False  #: whether z = 0 in the end


class Correctable(Protocol):
    """Dual variables that can be changed, in this process or in others."""

    def classes(self, lost: Flags) -> tuple[Floats, Floats]:
        """For each constraint, how many targets of either class its sum has, without those of `lost` constraints.

        Both are 1 for a constraint whose dual variables may be of either sign whatever the classes.
        """

    def lose(self, lost: Flags) -> None:
        """Let z be 0 in the sums of `lost` constraints, also after any other change."""

    def measure(self) -> None:
        """Determine how far each z may move."""

    def violation(self) -> Floats:
        """By how much z violates each constraint."""

    def product(self, x: Floats) -> Floats:
        """The change of the violation as the combination of effects x is added to z, times the room of each z."""

    def subtract(self, x: Floats) -> None:
        """Subtract the combination of effects x, times the room of each z, from z."""

    def norm(self) -> float:
        """|z|."""

    def bounded(self) -> bool:
        """Whether there are multipliers of bounds."""

    def inside(self) -> bool:
        """Whether z, scaled down a little, is in the domain of the conjugate."""

    def balance(self) -> None:
        """Replace z by one with sum 0 in every group, from the z before any change."""

    def clear(self) -> None:
        """Replace z by 0."""


def make_feasible(z: Correctable, problem: Problem) -> None:
    """Change z to a feasible one that is near."""
    location = problem.location
    assert location is not None
    kinds = (location.rows == 0.0) + (location.columns == 0.0) + location.mean
    if kinds == 0 and location.covariates is None:
        return
    bounded = z.bounded()
    wrong = z.violation()
    if problem.loss.binary and not bounded and (lost := _of_one_class(z, len(wrong))).any():
        z.lose(lost)
        wrong = z.violation()
    whole, size = z.norm(), float(np.linalg.norm(wrong))
    rounding = ROUNDING * np.finfo(float).eps * whole * np.sqrt(max(len(wrong), 1))
    if not size > rounding:
        return
    z.measure()
    for _ in range(PASSES):
        x = conjugate_gradients(z.product, wrong, lambda x: x, tol=max(EXACT, rounding / size), most=MOST)
        z.subtract(x)
        rest = z.violation()
        if not float(np.linalg.norm(rest)) < size:  # the rest is due to rounding
            z.subtract(-x)
            break
        wrong, size = rest, float(np.linalg.norm(rest))
        if not size > rounding:
            break
    infeasible = not size <= WRONG * whole
    if bounded:
        return
    if kinds == 1 and location.covariates is None and Correction.balances(problem, location):
        if infeasible or not z.inside():
            z.balance()
    elif infeasible:  # z = 0 is feasible, and its bound is the least loss
        z.clear()


def _of_one_class(z: Correctable, constraints: int) -> Flags:
    """The constraints whose dual variables can only be 0, because all of a sum that is 0 have one sign.

    A row that has only ones pulls its effect to infinity, and its loss to 0.
    """
    lost = np.zeros(constraints, dtype=bool)
    while True:
        up, down = z.classes(lost)
        more = lost | (up == 0) | (down == 0)
        if (more == lost).all():  # else others may be of one class now
            return lost
        lost = more


class Correction:
    """The dual variables of the observations in this process."""

    def __init__(self, duals: Duals, predictions: Callable[[], Floats] | None = None) -> None:
        """The `predictions` of all observations are needed only for some losses."""
        location = duals.problem.location
        assert location is not None
        self.problem, self.location, self.n_threads = duals.problem, location, duals.n_threads
        self._before = self.z = duals.z
        self._own = False  # whether z is an array of this object
        self._predictions, self._lost = predictions, np.zeros(0, dtype=bool)
        self._room: Floats | None = None  # of every z; None if it is 1
        self._multipliers = duals.multipliers if self._has(duals) else None
        self._data, self._a = duals.problem.data.located()
        self._ones = np.ones((duals.problem.shape[1], 1))
        self._left = np.ascontiguousarray(self._a[:, None])

    @staticmethod
    def _has(duals: Duals) -> bool:
        return duals.multipliers is not None and len(duals.multipliers.values) > 0

    def apply(self, change: Change) -> None:
        """Make a change that was found with all processes, from the z before any change."""
        if change.lost is not None:
            self.lose(change.lost)
        if change.largest is not None:
            self.roomy(change.largest)
        if change.x is not None:
            self.subtract(change.x)
        if change.sides is not None:
            self.scale(*change.sides)
        if change.nothing:
            self.clear()

    # ---- rows and columns of one class -------------------------------------------------------------------------------

    def classes(self, lost: Flags) -> tuple[Floats, Floats]:
        location, (d, T), rows_of_entries = self.location, self.problem.shape, "entries" in self.problem.data.traits
        y, found = self.problem.data.values, []
        rows, columns = np.zeros((2, len(self._a))), np.zeros((2, T))
        if (rows_of_entries and location.rows == 0.0) or location.columns == 0.0:
            for at in self._blocks():
                up, keep = y[at] > 0, ~self._is_lost(at, lost)
                for k, side in enumerate((up & keep, ~up & keep)):
                    if rows_of_entries:
                        rows[k, :d] += np.bincount(self._rows(at)[side], minlength=d)
                    columns[k] += np.bincount(self._columns(at)[side], minlength=T)
        if not rows_of_entries:
            rows[:] = 1.0
        for k in range(2):
            # The mean is a sum over all rows, and covariates may be of any sign.
            parts = self._chosen(rows[k], columns[k], np.ones(location.n_covariates))
            parts[self._of_mean] = 1.0
            found.append(parts)
        return found[0], found[1]

    @property
    def _of_mean(self) -> slice:
        start = self.problem.shape[0] if self.location.rows == 0.0 else 0
        return slice(start, start + self.location.mean)

    def _is_lost(self, at: slice, lost: Flags) -> Flags:
        """Which of these observations are in a sum that is lost."""
        found = np.zeros(at.stop - at.start, dtype=bool)
        if not lost.any():
            return found
        if self.location.rows == 0.0 and "entries" in self.problem.data.traits:
            found |= lost[self._rows(at)]
        if self.location.columns == 0.0:
            found |= lost[len(lost) - self.problem.shape[1] :][self._columns(at)]
        return found

    def lose(self, lost: Flags) -> None:
        self._lost, z = lost, self._changed()
        for at in self._blocks():
            z[at][self._is_lost(at, lost)] = 0.0

    # ---- how far each z may move -------------------------------------------------------------------------------------

    def measure(self) -> None:
        self.roomy(self.largest_room())

    def largest_room(self) -> float:
        """The most that a dual variable may move."""
        return max((float(room.max(initial=0.0)) for _, room in self._rooms()), default=0.0)

    def roomy(self, largest: float) -> None:
        """Let each z move in proportion to its room, so that those without room do not leave the domain."""
        data, loss = self.problem.data, self.problem.loss
        sized = 0.0 < largest < np.inf
        if not self._lost.any() and (not sized or (loss.quadratic and data.weights is None)):
            return
        self._room = scratch_like(self._before, np.float64)
        for at, room in self._rooms():
            self._room[at] = np.maximum(room / largest, STIFF) if sized else 1.0
            self._room[at][self._is_lost(at, self._lost)] = 0.0

    def _rooms(self) -> Iterator[tuple[slice, Floats]]:
        """The room of some observations at a time.

        It is the distance of z to the end of the domain of the conjugate or, if that has no end, the curvature of the
        loss.
        """
        data, loss, C = self.problem.data, self.problem.loss, self.problem.C
        interval, checked, w = None if loss.quadratic else loss.interval, CheckedLoss(loss), None
        if interval is None and not loss.quadratic and loss.smooth and self._predictions is not None:
            w = self._predictions()
        for at in self._blocks():
            y = data.values[at].astype(np.float64)
            weights = np.ones(len(y)) if data.weights is None else np.asarray(data.weights[at], dtype=np.float64)
            room = weights
            if interval is not None:
                s = self._before[at] / (C * weights)
                s = np.where(y < 0, -s, s) if interval.mirrored else s
                room = weights * np.minimum(s - interval.lower, interval.upper - s)
                room = np.where(self._is_lost(at, self._lost), 0.0, room)
            elif w is not None:
                room = weights * np.asarray(checked("hessian", y, w[at]))
            yield at, room

    def _scaled(self, values: Floats) -> Floats:
        """The `values`, which are overwritten, times the room of each z."""
        if self._room is not None:
            for at in self._blocks():
                values[at] *= self._room[at]
        return values

    # ---- constraints -------------------------------------------------------------------------------------------------

    def violation(self) -> Floats:
        found, at = self._constraints(self.z), self._multipliers
        if at is None:
            return found
        d = at.entries.shape[0]
        rows = np.zeros(len(self._a))
        rows[:d] = at.entries.scatter(at.values, self._ones, self.n_threads)[:, 0]
        columns = at.entries.gather(at.values, self._left[:d].copy(), self.n_threads)[:, 0]
        return found + self._chosen(rows, columns, np.zeros(self.location.n_covariates))

    def _constraints(self, values: Floats) -> Floats:
        data, location, threads = self._data, self.location, self.n_threads
        rows: Floats = np.zeros(len(self._a))
        columns: Floats = np.zeros(len(self._ones))
        X = location.covariates
        if location.rows == 0.0 or location.mean:
            rows = data.adjoint_times(values, self._ones, threads)[:, 0]
        if location.columns == 0.0:
            columns = data.adjoint_transposed_times(values, self._left, threads)[:, 0]
        return self._chosen(rows, columns, np.zeros(0) if X is None else X.T @ values)

    def _chosen(self, S1: Floats, Sa: Floats, of_covariates: Floats) -> Floats:
        """The parts that are constraints."""
        location, none = self.location, np.zeros(0)
        of_rows = S1[: self.problem.shape[0]] if location.rows == 0.0 else none
        of_mean = np.array([self._a @ S1]) if location.mean else none
        return np.concatenate([of_rows, of_mean, of_covariates, Sa if location.columns == 0.0 else none])

    def _combination(self, x: Floats) -> Floats:
        """The adjoint of `_constraints`."""
        location, d, T = self.location, self.problem.shape[0], len(self._ones)
        b: Floats = np.zeros(len(self._a))
        c: Floats = np.zeros(T)
        at, k = 0, location.n_covariates
        if location.rows == 0.0:
            b[:d], at = x[:d], d
        if location.mean:
            b, at = b + x[at] * self._a, at + 1
        if location.columns == 0.0:
            c = x[at + k :]
        w = self._data.apply(np.column_stack([self._a, b]), np.column_stack([c, np.ones(T)]), self.n_threads)
        return w if location.covariates is None else np.asarray(w + location.covariates @ x[at : at + k])

    def product(self, x: Floats) -> Floats:
        return self._constraints(self._scaled(self._combination(x)))

    def subtract(self, x: Floats) -> None:
        moved, z = self._scaled(self._combination(x)), self._changed()
        for at in self._blocks():
            z[at] -= moved[at]

    def _changed(self) -> Floats:
        """z as an array that may be overwritten; in double precision, or its sums would be too far from 0."""
        if not self._own:
            z = scratch_like(self._before, np.float64)
            z[:] = self.z
            self.z, self._own = z, True
        return self.z

    def clear(self) -> None:
        self._changed()[:] = 0.0

    def norm(self) -> float:
        return float(np.linalg.norm(self.z))

    def bounded(self) -> bool:
        return self._multipliers is not None

    def inside(self) -> bool:
        y, weights = self.problem.data.values, self.problem.data.weights
        C, conjugate = self.problem.C, self.problem.loss.conjugate
        for at in self._blocks():
            s = self.z[at] * (-(1.0 - LITTLE) / C)
            if not np.isfinite(conjugate(y[at].astype(np.float64), s if weights is None else s / weights[at])).all():
                return False
        return True

    # ---- z with sum 0 in every group ---------------------------------------------------------------------------------

    def sides(self) -> tuple[Floats, Floats]:
        """The sums of the positive and of the negative parts of z, before any change, over every group."""
        count = 1 if self.location.mean else self.problem.shape[0 if self.location.rows == 0.0 else 1]
        up, down = np.zeros(count), np.zeros(count)
        for at in self._blocks():
            some, groups = self._before[at].astype(np.float64), self._groups(at)
            up += np.bincount(groups, np.maximum(some, 0.0), count)
            down += np.bincount(groups, np.maximum(-some, 0.0), count)
        return up, down

    def balance(self) -> None:
        self.scale(*self.sides())

    @staticmethod
    def balances(problem: Problem, location: Location) -> bool:
        """Whether every observation is in one group: coefficients of features have none."""
        return location.rows != 0.0 or "entries" in problem.data.traits

    def scale(self, up: Floats, down: Floats) -> None:
        """Scale down the sign with the larger sum, which is feasible, from the sums of all processes."""
        less, z = np.minimum(up, down), self._changed()
        of_up, of_down = (less / np.where(side > 0, side, 1.0) for side in (up, down))
        for at in self._blocks():
            some, groups = self._before[at].astype(np.float64), self._groups(at)
            z[at] = some * np.where(some > 0, of_up[groups], of_down[groups])

    def _blocks(self) -> Iterator[slice]:
        """Some observations at a time: of whole columns, if they are ordered by columns."""
        columns, n = self._pattern, len(self.z)
        ends = [(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]
        if columns is not None:
            ends = [(int(columns.indptr[first]), int(columns.indptr[last])) for first, last in columns.blocks()]
        for start, end in ends:
            raise_if_stopped()
            yield slice(start, end)

    def _groups(self, at: slice) -> Indices64:
        """The group of each of these observations, for sums that must be 0: all of them, its row or its column."""
        if self.location.mean:
            return np.zeros(at.stop - at.start, dtype=np.int64)
        if self.location.rows == 0.0:
            return self._rows(at)
        return self._columns(at)

    def _rows(self, at: slice) -> Indices64:
        if self._pattern is None:
            return self.problem.data.groups(0)[at]
        return np.asarray(self._pattern.index[at], dtype=np.int64)

    def _columns(self, at: slice) -> Indices64:
        if self._pattern is None:
            return self.problem.data.groups(1)[at]
        ends = self._pattern.indptr
        return np.asarray(np.searchsorted(ends, np.arange(at.start, at.stop), side="right") - 1)

    @property
    def _pattern(self) -> Columns | None:
        columns: Columns | None = getattr(self.problem.data, "columns", None)
        return columns
