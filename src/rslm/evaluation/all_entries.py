"""The dual variables of a problem with zeros of weight α₀ at all entries.

The loss of an entry is a w² − 2 b w + c with a = C (ω + α₀), b = C ω y, c = C ω y², where ω = 0 if it is not observed.
With S = M*z − 2C α₀ W of weights p and q, and s an entry of it before it is divided by them,

    −Σ ℓ*(−αs) = Σ_Ω c − b²/a  +  α Σ_Ω s b/a  −  α² (Σ_all s²/4Cα₀  +  Σ_Ω s² (1/4a − 1/4Cα₀)),

over all entries by the low rank of W, and over the observed ones Ω. Nothing of size d × T is formed.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from rslm.evaluation.dual import BLOCK, Duals, squares_of_entries, sum_in_blocks
from rslm.kernels.scratch import scratch_like
from rslm.linalg.products import LowRank, Products
from rslm.problem import Problem
from rslm.runtime.types import Floats


class AllEntriesDuals(Duals):
    """z of the observed entries, and the low-rank part −2C α₀ W of S, for W = A Bᵀ with predictions w."""

    def __init__(self, problem: Problem, z: Floats, n_threads: int, A: Floats, B: Floats, w: Floats) -> None:
        super().__init__(problem, z, n_threads)
        self._pull = 2.0 * problem.C * problem.data.background
        self._A, self._B, self._w = A, B, w

    def _more(self) -> list[Products]:
        return [LowRank(-self._pull * self._A, self._weighted_B)]

    @cached_property
    def _weighted_B(self) -> Floats:
        q = self.problem.column_weights
        return self._B if q is None else self._B / np.sqrt(q)[:, None]

    def largest(self) -> float:
        sizes = [float(np.abs(part).max(initial=0.0)) for part in (self._A, self._B)]
        return float(np.max([super().largest(), self._pull * sizes[0] * sizes[1]]))  # NaN if one is NaN

    def frobenius_squared(self) -> float:
        """An upper bound: (‖M*z‖ + ‖2C α₀ W‖)², both with weights."""
        columns = self.problem.data.columns  # type: ignore[attr-defined]  # entries have a pattern
        of_zeros = self._pull * math.sqrt(product_squared(self._A * self.problem.row_scale, self._weighted_B))
        return (math.sqrt(squares_of_entries(self.problem, columns, self.z)) + of_zeros) ** 2

    @cached_property
    def _sums(self) -> tuple[float, float]:
        """The factors of α and of −α² in the conjugate."""
        problem, y, z, w = self.problem, self.problem.data.values, self.z, self._w
        C, alpha0 = problem.C, problem.data.background

        def dual(at: slice) -> Floats:
            return np.asarray(z[at].astype(np.float64) - self._pull * w[at])

        def linear(at: slice) -> Floats:
            omega = observed_weights(problem, at)
            return np.asarray(dual(at) * y[at] * (omega / (omega + alpha0)))

        def square(at: slice) -> Floats:
            # The sum over all entries counts an observed one like the others, whose s²/4Cα₀ is C α₀ w².
            a = C * (observed_weights(problem, at) + alpha0)
            return np.asarray(dual(at) ** 2 / (4.0 * a) - C * alpha0 * w[at] ** 2)

        everywhere = C * alpha0 * product_squared(self._A, self._B)
        return sum_in_blocks(linear, len(y)), everywhere + sum_in_blocks(square, len(y))

    def conjugate_part(self, alpha: float) -> float:
        linear, square = self._sums
        return self._least + alpha * linear - alpha * alpha * square

    @cached_property
    def _least(self) -> float:
        return least_loss(self.problem)


def product_squared(A: Floats, B: Floats) -> float:
    """‖A Bᵀ‖_F² without forming the product."""
    return max(float(np.vdot(A.T @ A, B.T @ B)), 0.0)  # a rounding error may be below 0


def observed_weights(problem: Problem, at: slice) -> Floats:
    """ω of observed entries."""
    weights = problem.data.weights
    return np.ones(1) if weights is None else weights[at]


def best_entries(problem: Problem) -> Floats:
    """The best value of every observed entry by itself, y ω/(ω + α₀)."""
    y = problem.data.values
    best: Floats = scratch_like(y, np.float64)
    for start in range(0, len(y), BLOCK):
        at = slice(start, start + BLOCK)
        omega = observed_weights(problem, at)
        best[at] = y[at] * (omega / (omega + problem.data.background))
    return best


def least_loss(problem: Problem) -> float:
    """C Σ min_w (ω (y − w)² + α₀ w²) = C α₀ Σ y² ω/(ω + α₀) over the observed entries."""
    y, alpha0 = problem.data.values, problem.data.background

    def of_block(at: slice) -> Floats:
        omega = observed_weights(problem, at)
        return np.asarray(y[at].astype(np.float64) ** 2 * (omega / (omega + alpha0)))

    return problem.C * alpha0 * sum_in_blocks(of_block, len(y))
