"""The dual variables of an evaluation, and the sums over them that a certificate asks for.

With dual variables z, multipliers a of the bounds and weights p, q, S = diag(1/√p) (M*z + a) diag(1/√q).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np

from rslm.linalg.spectrum import frobenius_squared, largest_eigenvalue, weighted_gram
from rslm.measurements import Measurement
from rslm.problem import Problem
from rslm.runtime.interrupts import look
from rslm.runtime.types import Floats
from rslm.structures import Box, Multipliers, Smooth, SoftBox

TOO_LARGE = 1e140  # for squares and sums of them to stay finite
BLOCK = 1 << 20  # entries summed at a time, so that no temporary is as large as the data


class DualSums(Protocol):
    """What a certificate asks of dual variables, wherever they are."""

    def largest(self) -> float:
        """The largest absolute value of z and a; not a number if one is not."""

    def rounding(self) -> float:
        """The relative rounding error of one of them."""

    def gram(self, X: Floats) -> Floats:
        """S Sᵀ X."""

    def frobenius_squared(self) -> float:
        """‖S‖_F², or what is above it where entries of S are sums of two."""

    def conjugate_part(self, alpha: float) -> float:
        """−C Σ ℓ*(y, −αz/C)."""

    def support(self) -> float:
        """Σ lower a⁺ − upper a⁻: the least that ⟨a, W⟩ can be within the bounds."""

    def quadratic(self) -> float:
        """⟨W, 𝓛W⟩ where W pays ½⟨W, 𝓛W⟩ for not being smooth: the conjugate of that, twice."""


class Duals:
    """Dual variables z of the observations of a problem, and the multipliers of its bounds if there are any."""

    def __init__(self, problem: Problem, z: Floats, n_threads: int, multipliers: Multipliers | None = None) -> None:
        self.problem, self.z, self.n_threads, self.multipliers = problem, z, n_threads, multipliers

    def largest(self) -> float:
        of_bounds = 0.0 if self.multipliers is None else _largest(self.multipliers.values)
        return float(np.max([_largest(self.z), of_bounds]))  # NaN if one is

    def rounding(self) -> float:
        return float(np.finfo(self.z.dtype).eps)

    @cached_property
    def _gram(self) -> Callable[[Floats], Floats]:
        return weighted_gram(self.problem, self.z, self.n_threads, self.multipliers)

    def gram(self, X: Floats) -> Floats:
        return self._gram(X)

    def frobenius_squared(self) -> float:
        return frobenius_squared(self.problem, self.z, self.multipliers)

    def conjugate_part(self, alpha: float) -> float:
        return conjugate_part(self.problem, self.z, alpha)

    def support(self) -> float:
        found = self.multipliers
        if found is None or not len(found.values):
            return 0.0
        structure = self.problem.structure
        assert isinstance(structure, Box | SoftBox)
        lower, upper = structure.planes(self.problem.shape)
        a, rows = found.values, found.entries.index
        columns = np.repeat(np.arange(self.problem.shape[1]), np.diff(found.entries.indptr))
        up, down = a > 0, a < 0  # a bound that is infinite pushes nowhere
        return float(a[up] @ lower[rows[up], columns[up]]) + float(a[down] @ upper[rows[down], columns[down]])

    def quadratic(self) -> float:
        return 0.0


class SmoothDuals(Duals):
    """Those of a problem where W = A Bᵀ pays for not being smooth: S = M*z − 𝓛W."""

    def __init__(self, problem: Problem, z: Floats, n_threads: int, A: Floats, B: Floats) -> None:
        super().__init__(problem, z, n_threads)
        self._A, self._B = A, B

    def gram(self, X: Floats) -> Floats:
        problem, data, smooth = self.problem, self.problem.data, self.problem.structure
        assert isinstance(data, Measurement)
        assert isinstance(smooth, Smooth)
        q = 1.0 if problem.column_weights is None else (1.0 / problem.column_weights)[:, None]
        X = problem.row_scale * X
        Y = data.adjoint_transposed_times(self.z, X, self.n_threads) - smooth.transposed_times(self._A, self._B, X)
        Z = data.adjoint_times(self.z, q * Y, self.n_threads) - smooth.times(self._A, self._B, q * Y)
        return np.asarray(problem.row_scale * Z)

    def frobenius_squared(self) -> float:
        return sum(float(self.gram(unit[:, None])[k, 0]) for k, unit in enumerate(np.eye(self.problem.shape[0])))

    def quadratic(self) -> float:
        assert isinstance(self.problem.structure, Smooth)
        return 2.0 * self.problem.structure.value(self._A, self._B)


def largest_singular_value_squared(duals: DualSums, U: Floats) -> tuple[float, str]:
    """σ₁(S)² from above, and how it was found. The columns of U are where to look first."""
    largest = duals.largest()
    if largest == 0.0:
        return 0.0, "all dual variables are zero"
    if not largest < TOO_LARGE:
        return math.inf, "not computed: the dual variables are too large"
    square, method = largest_eigenvalue(duals.gram, U)
    return (duals.frobenius_squared(), method) if math.isnan(square) else (square, method)


def conjugate_part(problem: Problem, z: Floats, alpha: float) -> float:
    """−C Σ ℓ*(y, −αz/C)."""
    y, C, conjugate = problem.data.values, problem.C, problem.loss.conjugate
    return -C * sum_in_blocks(
        lambda at: conjugate(y[at].astype(np.float64), z[at].astype(np.float64) * (-alpha / C)), len(y)
    )


def least_loss(problem: Problem) -> float:
    """C Σ min_w ℓ(y, w)."""
    return conjugate_part(problem, np.zeros(len(problem.data)), 0.0)


def balanced(problem: Problem, z: Floats) -> Floats:
    """z with sum 0 in every task, as intercepts need it: the side that has more is made smaller, which is feasible."""
    look()
    columns = problem.columns
    task = np.repeat(np.arange(columns.shape[1]), np.diff(columns.indptr))
    up, down = (np.bincount(task, np.maximum(side, 0.0), columns.shape[1]) for side in (z, -z))
    look()
    less = np.minimum(up, down)
    factors = [less / np.where(side > 0, side, 1.0) for side in (up, down)]
    return np.asarray(z * np.where(z > 0, factors[0][task], factors[1][task]))


def sum_in_blocks(term: Callable[[slice], Floats], n: int) -> float:
    """Σ of what `term` says of n entries, some at a time."""

    def of_block(k: int) -> float:
        look()
        return float(term(slice(k, k + BLOCK)).sum(dtype=np.float64))

    return math.fsum(of_block(k) for k in range(0, n, BLOCK))


def _largest(values: Floats) -> float:
    """The largest absolute value, without a copy; not a number if one is not."""
    return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
