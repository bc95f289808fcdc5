"""The dual variables of an evaluation, and the sums over them that a certificate needs.

With dual variables z, multipliers a of the bounds and weights p, q, S = diag(1/√p) (M*z + a) diag(1/√q). With a penalty
½⟨W, 𝓛W⟩ on W, −𝓛W is added to M*z. With a linear structure, S may be any matrix with P*(S) = P*(M*z).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np

from rslm.inner.base import StructuredDual
from rslm.kernels import Columns
from rslm.linalg.products import ColumnScaled, Products, Quadratic, Sparse
from rslm.linalg.spectrum import largest_eigenvalue
from rslm.location import Location
from rslm.problem import Problem
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats
from rslm.structures import Multipliers

TOO_LARGE = 1e140  # sums of squares of larger numbers may overflow
BLOCK = 1 << 20  # entries summed at a time, so that no temporary is as large as the data
WIDTH = 64  # S is multiplied with this many unit vectors at a time


class DualSums(Protocol):
    """The sums over dual variables that a certificate needs, in this process or in others."""

    def largest(self) -> float:
        """The largest absolute value of z and a; NaN if one is NaN."""

    def rounding(self) -> float:
        """The relative rounding error of a dual variable."""

    def gram(self, X: Floats) -> Floats:
        """S Sᵀ X."""

    def frobenius_squared(self) -> float:
        """‖S‖_F² or an upper bound on it."""

    def conjugate_part(self, alpha: float) -> float:
        """−C Σ ℓ*(y, −αz/C)."""

    def support(self) -> float:
        """The minimum of ⟨a, W⟩ within the bounds, Σ lower a⁺ − upper a⁻; or ⟨S − M*z, W₀⟩ of an affine structure."""

    def quadratic(self) -> float:
        """Twice the conjugate of penalties other than the trace norm: ⟨W, 𝓛W⟩, or that of the effects."""

    def infeasibility(self) -> float:
        """An upper bound on the norm of the smallest change of S that makes it feasible."""


class Duals:
    """Dual variables z of the observations of a problem, and the multipliers of its bounds if there are any."""

    def __init__(
        self,
        problem: Problem,
        z: Floats,
        n_threads: int,
        multipliers: Multipliers | None = None,
        factors: tuple[Floats, Floats] | None = None,
    ) -> None:
        """`factors` are A and B with W = A Bᵀ, needed if there is a penalty on W."""
        self.problem, self.z, self.n_threads, self.multipliers = problem, z, n_threads, multipliers
        self._factors = factors if problem.structure.form == "penalty" else None

    def largest(self) -> float:
        of_bounds = 0.0 if self.multipliers is None else _largest(self.multipliers.values)
        return float(np.max([_largest(self.z), of_bounds]))  # NaN if one is NaN

    def rounding(self) -> float:
        return float(np.finfo(self.z.dtype).eps)

    def gram(self, X: Floats) -> Floats:
        return self._gram(X)

    @cached_property
    def _gram(self) -> Callable[[Floats], Floats]:
        return dual_gram(self.problem, self.z, self.n_threads, self._more())

    def _more(self) -> list[Products]:
        """The terms of S other than M*z, with columns divided by √q."""
        q, more = self.problem.column_weights, list[Products]()
        if self.multipliers is not None and len(self.multipliers.values):
            entries = self.multipliers.entries
            more.append(Sparse(entries, entries.divided(self.multipliers.values, q), self.n_threads))
        if self._factors is not None:
            part: Products = Quadratic(self.problem.structure, *self._factors)
            more.append(part if q is None else ColumnScaled(part, (1.0 / np.sqrt(q))[:, None]))
        return more

    def frobenius_squared(self) -> float:
        if "entries" not in self.problem.data.traits or self._factors is not None:
            return _frobenius_squared(self.gram, self.problem.shape[0])
        parts = [(self.problem.data.columns, self.z)]  # type: ignore[attr-defined]
        parts += [] if self.multipliers is None else [(self.multipliers.entries, self.multipliers.values)]
        return sum(math.sqrt(squares_of_entries(self.problem, *part)) for part in parts) ** 2

    def conjugate_part(self, alpha: float) -> float:
        return conjugate_part(self.problem, self.z, alpha)

    def support(self) -> float:
        found, box = self.multipliers, self.problem.structure.box
        if found is None or not len(found.values):
            return 0.0
        assert box is not None
        lower, upper = box.planes(self.problem.shape)
        a, (rows, columns) = found.values, found.entries.places()
        up, down = a > 0, a < 0  # an infinite bound has no multiplier
        return float(a[up] @ lower[rows[up], columns[up]]) + float(a[down] @ upper[rows[down], columns[down]])

    def quadratic(self) -> float:
        if self.problem.location is not None:
            return quadratic_of_effects(self.problem.location, *self.sums_of_effects())
        return 0.0 if self._factors is None else 2.0 * self.problem.structure.penalty(*self._factors)

    def sums_of_effects(self) -> tuple[Floats, float]:
        """S 1 and ‖Sᵀa‖², each 0 unless the effects of rows, or of columns, are penalised."""
        location, (data, a) = self.problem.location, self.problem.data.located()
        assert location is not None
        (d, T), threads = self.problem.shape, self.n_threads
        bounds = None if self.multipliers is None or not len(self.multipliers.values) else self.multipliers
        S1, square = np.zeros(d), 0.0
        if location.rows:
            S1 += data.adjoint_times(self.z, np.ones((T, 1)), threads)[:d, 0]
            if bounds is not None:
                S1 += bounds.entries.scatter(bounds.values, np.ones((T, 1)), threads)[:, 0]
        if location.columns:
            left = np.ascontiguousarray(a[:, None])
            Sa = data.adjoint_transposed_times(self.z, left, threads)[:, 0]
            if bounds is not None:
                Sa = Sa + bounds.entries.gather(bounds.values, left, threads)[:, 0]
            square = float(Sa @ Sa)
        return S1, square

    def infeasibility(self) -> float:
        return 0.0


def quadratic_of_effects(location: Location, S1: Floats, square: float) -> float:
    """‖S 1‖²/ρ_r + ‖Sᵀa‖²/ρ_c, of those effects that are penalised; `square` is ‖Sᵀa‖²."""
    of_rows = float(S1 @ S1) / location.rows if location.rows else 0.0
    return of_rows + (square / location.columns if location.columns else 0.0)


class StructuredDuals(Duals):
    """The dual variables of a problem with linear structure, whose S is not M*z."""

    def __init__(self, problem: Problem, z: Floats, n_threads: int, S: StructuredDual) -> None:
        super().__init__(problem, z, n_threads)
        self.S = S

    def gram(self, X: Floats) -> Floats:
        return self.S.times(self.S.transposed_times(X))

    def frobenius_squared(self) -> float:
        return _frobenius_squared(self.gram, self.problem.shape[0])

    def support(self) -> float:
        return self.S.support(self.z) + self._correction[1]

    def infeasibility(self) -> float:
        return self._correction[0]

    @cached_property
    def _correction(self) -> tuple[float, float]:
        return self.S.correction(self.z)


def dual_gram(
    problem: Problem, z: Floats, n_threads: int, more: list[Products] | None = None
) -> Callable[[Floats], Floats]:
    """X ↦ S Sᵀ X; `more` are the terms of S other than M*z, with columns divided by √q."""
    p = problem.row_weights
    scale = 1.0 if p is None else (1.0 / np.sqrt(p))[:, None]
    of_data = problem.data.adjoint_gram(z, problem.column_weights, n_threads)
    if not more:
        return lambda X: scale * of_data(scale * X, None)

    def gram(X: Floats) -> Floats:
        X = scale * X
        Y = np.asarray(sum(part.transposed_times(X) for part in more))
        product = of_data(X, Y)  # Y is now Sᵀ X
        return np.asarray(scale * sum((part.times(Y) for part in more), product))

    return gram


def largest_singular_value_squared(duals: DualSums, U: Floats) -> tuple[float, str]:
    """An upper bound on σ₁(S)², and how it was found. The iteration starts from the columns of U."""
    largest = duals.largest()
    if not largest < TOO_LARGE:
        return math.inf, "not computed: the dual variables are too large"
    slack = duals.infeasibility()
    if largest == 0.0 and slack == 0.0:
        return 0.0, "all dual variables are zero"
    square, method = largest_eigenvalue(duals.gram, U)
    square = duals.frobenius_squared() if math.isnan(square) else square
    return (math.sqrt(square) + slack) ** 2 if slack > 0.0 else square, method


def conjugate_part(problem: Problem, z: Floats, alpha: float) -> float:
    """−C Σ ω ℓ*(y, −αz/Cω)."""
    y, C, conjugate, weights = problem.data.values, problem.C, problem.loss.conjugate, problem.data.weights

    def of_block(at: slice) -> Floats:
        s = z[at].astype(np.float64) * (-alpha / C)
        if weights is None:
            return np.asarray(conjugate(y[at].astype(np.float64), s))
        return np.asarray(weights[at] * conjugate(y[at].astype(np.float64), s / weights[at]))

    return -C * sum_in_blocks(of_block, len(y))


def balanced(problem: Problem, z: Floats) -> Floats:
    """z with sum 0 in every column, as intercepts require; scaling down the sign with the larger sum is feasible."""
    data = problem.data
    raise_if_stopped()
    up, down = (data.sums_by_column(np.maximum(side, 0.0)) for side in (z, -z))
    raise_if_stopped()
    less = np.minimum(up, down)
    factors = [data.by_column(less / np.where(side > 0, side, 1.0)) for side in (up, down)]
    return np.asarray(z * np.where(z > 0, factors[0], factors[1]))


def sum_in_blocks(term: Callable[[slice], Floats], n: int) -> float:
    """Σ term over n entries, one block at a time."""

    def of_block(k: int) -> float:
        raise_if_stopped()
        return float(term(slice(k, k + BLOCK)).sum(dtype=np.float64))

    return math.fsum(of_block(k) for k in range(0, n, BLOCK))


def _largest(values: Floats) -> float:
    """The largest absolute value, without a copy; NaN if one is NaN."""
    return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))


def _frobenius_squared(gram: Callable[[Floats], Floats], d: int) -> float:
    """The trace of S Sᵀ."""
    total = 0.0
    for start in range(0, d, WIDTH):
        unit = np.eye(d, min(WIDTH, d - start), -start)
        total += float(np.vdot(unit, gram(unit)))
    return total


def squares_of_entries(problem: Problem, columns: Columns, values: Floats) -> float:
    """‖diag(1/√p) · values · diag(1/√q)‖_F² of a sparse matrix."""
    p, total = problem.row_weights, 0.0
    values = columns.divided(values, problem.column_weights)
    for start, end in columns.blocks():
        at = slice(columns.indptr[start], columns.indptr[end])
        squares = values[at].astype(np.float64) ** 2
        total += float((squares if p is None else squares / p[columns.index[at]]).sum())
    return total
