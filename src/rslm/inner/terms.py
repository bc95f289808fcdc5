"""The terms of an inner problem, functions of W: the loss, the cost of violating soft bounds, a penalty.

A term f provides products of thin matrices with its dual matrix −∇f(W) and with the derivative of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from rslm.kernels import Columns
from rslm.linalg.products import Products, Quadratic, Sparse
from rslm.losses.checked import CheckedLoss
from rslm.measurements import Measurement
from rslm.problem import Problem
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats
from rslm.structures import Smooth, SoftBox

BLOCK = 1 << 20  # entries of W that are in memory at a time


class State(Products, Protocol):
    """A term at one W, with products with its dual matrix."""

    @property
    def value(self) -> float: ...

    def moved(self, A: Floats, B: Floats, b: Floats | None) -> Products:
        """The derivative of the dual matrix along A Bᵀ, and along b for the intercepts."""

    def curvature(self) -> Floats | float:
        """The average second derivative by an entry, for each column, for a preconditioner."""


class Term(Protocol):
    def at(self, X: Floats, V: Floats, b: Floats | None) -> State: ...


# ---- the loss ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Adjoint:
    """M*z, given by its products."""

    data: Measurement
    z: Floats
    threads: int

    def times(self, Y: Floats) -> Floats:
        return self.data.adjoint_times(self.z, Y, self.threads)

    def transposed_times(self, X: Floats) -> Floats:
        return self.data.adjoint_transposed_times(self.z, X, self.threads)

    def sums(self) -> Floats:
        """Σ z of every column: minus the derivative by the intercept."""
        return self.data.sums_by_column(self.z)


def middle_of(problem: Problem) -> Floats | None:
    """The mean target of every column, which intercepts are near; None without intercepts, 0 for two classes."""
    data = problem.data
    if not data.intercept:
        return None
    counts = data.sums_by_column(np.ones(len(data)))
    sums = data.sums_by_column(np.asarray(data.values, dtype=np.float64))
    return np.zeros(len(sums)) if problem.loss.binary else np.asarray(sums / np.maximum(counts, 1.0))


class LossTerm:
    """C Σ ω ℓ(y, M W + b)."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        self.data, self.C, self.loss, self.threads = problem.data, problem.C, CheckedLoss(problem.loss), n_threads
        self.y = np.asarray(problem.data.values, dtype=np.float64)
        self.weights: Floats | float = 1.0 if problem.data.weights is None else problem.data.weights
        self.middle = middle_of(problem)  # intercepts are relative to it
        self._constant = 0.0 if self.middle is None else problem.data.by_column(self.middle)

    def apply(self, X: Floats, V: Floats, b: Floats | None) -> Floats:
        w = self.data.apply(X, V, self.threads)
        return w if b is None else np.asarray(w + self.data.by_column(b))

    def at(self, X: Floats, V: Floats, b: Floats | None, offset: Floats | None = None) -> LossState:
        """The loss at X Vᵀ with intercepts b; an `offset` is added to the predictions."""
        w = self.apply(X, V, b) + self._constant
        return LossState(self, w if offset is None else w + offset)

    def change(self, A: Floats, B: Floats, b: Floats | None, D: Floats) -> Floats:
        """The derivative of the dual variables along A Bᵀ and b, for a curvature D."""
        return np.asarray(-D * self.apply(A, B, b))


class LossState(Adjoint):
    def __init__(self, term: LossTerm, w: Floats) -> None:
        self.term, self.w = term, w
        with np.errstate(all="ignore"):  # overflow means that a step is too long
            self.value = term.C * float(np.sum(term.weights * term.loss("value", term.y, w)))
            z = -term.C * term.weights * term.loss("gradient", term.y, w)
        super().__init__(term.data, z, term.threads)

    @cached_property
    def D(self) -> Floats:
        """C ω ℓ'' of every observation."""
        return np.asarray(self.term.C * self.term.weights * self.term.loss("hessian", self.term.y, self.w))

    def moved(self, A: Floats, B: Floats, b: Floats | None) -> Adjoint:
        return Adjoint(self.data, self.term.change(A, B, b, self.D), self.threads)

    def curvature(self) -> float:
        d, T = self.data.shape
        return float(self.D.sum()) / (d * T) * self.data.gain


# ---- bounds --------------------------------------------------------------------------------------------------------


class BoundsTerm:
    """(C/2ε) Σ distance(w − ε a⁰/C)² of every entry of W from its bounds; see `rslm.structures.soft_box`."""

    def __init__(self, problem: Problem, soft: SoftBox, n_threads: int) -> None:
        self.stiffness, self.threads, self.shape = problem.C / soft.softness, n_threads, problem.shape
        self.lower, self.upper = soft.planes(problem.shape)
        self.expected, self.constant = soft.expected, 0.0
        if soft.expected is not None:
            self.constant = 0.5 * float(soft.expected.values @ soft.expected.values) / self.stiffness

    def at(self, X: Floats, V: Floats, b: Floats | None) -> BoundsState:
        rows, values, counts = [], [], []
        step = max(BLOCK // len(X), 1)
        for start in range(0, len(V), step):
            raise_if_stopped()
            at = slice(start, min(start + step, len(V)))
            W = X @ V[at].T
            if self.expected is not None:
                entries = self.expected.entries
                own = slice(entries.indptr[at.start], entries.indptr[at.stop])
                column = np.repeat(np.arange(at.stop - at.start), np.diff(entries.indptr[at.start : at.stop + 1]))
                W[entries.index[own], column] -= self.expected.values[own] / self.stiffness
            violations = (W - np.clip(W, self.lower[:, at], self.upper[:, at])).T
            column, row = np.nonzero(violations)
            rows.append(row)
            values.append(violations[column, row])
            counts.append(np.bincount(column, minlength=at.stop - at.start))
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64)
        pattern = Columns(indptr, np.concatenate(rows).astype(np.int32), len(X))
        return BoundsState(self, pattern, np.concatenate(values))


class BoundsState(Sparse):
    def __init__(self, term: BoundsTerm, entries: Columns, violations: Floats) -> None:
        super().__init__(entries, -term.stiffness * violations, term.threads)
        object.__setattr__(self, "term", term)
        object.__setattr__(self, "value", 0.5 * term.stiffness * float(violations @ violations) - term.constant)

    term: BoundsTerm
    value: float

    def moved(self, A: Floats, B: Floats, b: Floats | None) -> Sparse:
        change = self.entries.predict(A, B, self.threads)
        return Sparse(self.entries, -self.term.stiffness * change, self.threads)

    def curvature(self) -> Floats:
        return self.term.stiffness / self.term.shape[0] * np.diff(self.entries.indptr)


# ---- a quadratic penalty --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PenaltyState(Quadratic):
    penalty: Smooth
    value: float

    def moved(self, A: Floats, B: Floats, b: Floats | None) -> Quadratic:
        return Quadratic(self.penalty, A, B)

    def curvature(self) -> float:
        return self.penalty.average


@dataclass(frozen=True)
class PenaltyTerm:
    """½⟨W, 𝓛W⟩."""

    smooth: Smooth

    def at(self, X: Floats, V: Floats, b: Floats | None) -> PenaltyState:
        return PenaltyState(self.smooth, X, V, self.smooth.penalty(X, V))
