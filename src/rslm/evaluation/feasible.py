"""Dual variables that are feasible where parts of the location are not penalised.

The mean requires Σ z = 0, row effects without penalty S 1 = 0, column effects Sᵀa = 0, and covariates Xᵀz = 0, with
S = M*z plus the multipliers of bounds. At a solution this holds up to the tolerance of the solver. The nearest feasible
z differs by a combination of effects, by least squares; a certificate then scales z down into the domain of the
conjugate, which it may leave by as little.

A violation of these constraints is one array: of the rows, of the mean and of the covariates, which are sums over all
columns, and then of the columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from rslm.evaluation.dual import Duals
from rslm.kernels import Columns
from rslm.kernels.scratch import scratch_like
from rslm.linalg.conjugate_gradients import conjugate_gradients
from rslm.location import Location
from rslm.problem import Problem
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats, Indices64

EXACT, MOST, PASSES = 1e-7, 2000, 3  # two more passes remove what the first leaves
LITTLE = 1e-5  # by how much z may be scaled down without making the dual value useless


class Correctable(Protocol):
    """Dual variables that can be changed, in this process or in others."""

    def violation(self) -> Floats:
        """By how much z violates each constraint."""

    def product(self, x: Floats) -> Floats:
        """The change of the violation as the combination of effects x is added to z."""

    def subtract(self, x: Floats) -> None:
        """Subtract the combination of effects x from z."""

    def norm(self) -> float:
        """|z|."""

    def bounded(self) -> bool:
        """Whether there are multipliers of bounds."""

    def inside(self) -> bool:
        """Whether z, scaled down a little, is in the domain of the conjugate."""

    def balance(self) -> None:
        """Replace z by one with sum 0 in every group, from the z before any change."""


def make_feasible(z: Correctable, problem: Problem) -> None:
    """Change z to the nearest feasible one."""
    location = problem.location
    assert location is not None
    kinds = (location.rows == 0.0) + (location.columns == 0.0) + location.mean
    if kinds == 0 and location.covariates is None:
        return
    wrong = z.violation()
    negligible = np.finfo(float).eps * z.norm() * np.sqrt(len(problem.data))
    for _ in range(PASSES):
        if not float(np.linalg.norm(wrong)) > negligible:  # the rest is due to rounding
            break
        z.subtract(conjugate_gradients(z.product, wrong, lambda x: x, tol=EXACT, most=MOST))
        wrong = z.violation()
    if kinds == 1 and location.covariates is None and not z.bounded() and not z.inside():
        z.balance()


class Correction:
    """The dual variables of the observations in this process."""

    def __init__(self, duals: Duals) -> None:
        location = duals.problem.location
        assert location is not None
        self.problem, self.location, self.n_threads = duals.problem, location, duals.n_threads
        self._before = self.z = duals.z
        self._own = False  # whether z is an array of this object
        self._multipliers = duals.multipliers if self._has(duals) else None
        self._data, self._a = duals.problem.data.located()
        self._ones = np.ones((duals.problem.shape[1], 1))
        self._left = np.ascontiguousarray(self._a[:, None])

    @staticmethod
    def _has(duals: Duals) -> bool:
        return duals.multipliers is not None and len(duals.multipliers.values) > 0

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
        return self._constraints(self._combination(x))

    def subtract(self, x: Floats) -> None:
        moved, z = self._combination(x), self._changed()
        for at in self._blocks():
            z[at] -= moved[at]

    def _changed(self) -> Floats:
        """z as an array that may be overwritten; in double precision, or its sums would be too far from 0."""
        if not self._own:
            z = scratch_like(self._before, np.float64)
            z[:] = self.z
            self.z, self._own = z, True
        return self.z

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
        if self.balances(self.problem, self.location):
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
        """The observations of some columns at a time."""
        columns = self._pattern
        for first, last in columns.blocks():
            raise_if_stopped()
            yield slice(int(columns.indptr[first]), int(columns.indptr[last]))

    def _groups(self, at: slice) -> Indices64:
        """The group of each of these observations, for sums that must be 0: all of them, its row or its column."""
        if self.location.mean:
            return np.zeros(at.stop - at.start, dtype=np.int64)
        if self.location.rows == 0.0:
            return self._pattern.index[at].astype(np.int64)
        ends = self._pattern.indptr
        return np.asarray(np.searchsorted(ends, np.arange(at.start, at.stop), side="right") - 1)

    @property
    def _pattern(self) -> Columns:
        columns: Columns = self.problem.data.columns  # type: ignore[attr-defined]  # all data with a location have them
        return columns
