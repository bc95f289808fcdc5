"""Linear structure, smoothed, under a quadratic loss: one linear system in the parameters w.

With Θ = UUᵀ + δI and K = (δI + UᵀU)⁻¹, so that Θ⁻¹U = U K,

    w = argmin C |y − M w|² + ½⟨Θ⁻¹ P(w), P(w)⟩:   A w = 2C M*y,   A = 2C M*M + P*Θ⁻¹P,
    S = Θ⁻¹ P(w),   V = SᵀU = P(w)ᵀU K,   z = 2C (y − M w),   M*z = P*(S),   ∇g = −S V.

Along ξ, with Q = Sᵀξ:   A ẇ = P*(Θ⁻¹ξ Vᵀ + U K Qᵀ),   Ṡ = Θ⁻¹P(ẇ) − Θ⁻¹ξ Vᵀ − U K Qᵀ,   V̇ = ṠᵀU + Q.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rslm.inner.linear_systems import WIDEST, Banded, Iterative, System, Theta
from rslm.measurements import Bilinear, Entries, Samples, Tasks
from rslm.measurements.remote import Elsewhere
from rslm.problem import Problem
from rslm.runtime.types import Floats, Indices64
from rslm.structures import Hankel, LinearStructure, Smoothed

Map = Callable[[Floats], Floats]


def measure_of(problem: Problem) -> tuple[Map, Map, Floats]:
    """M, M* and the diagonal of M*M, which is all of it where observations are single parameters."""
    assert isinstance(problem.structure, Smoothed)
    structure, data = problem.structure.structure, problem.data
    index = _index(structure, data)
    if index is None:
        assert not isinstance(data, Samples)
        rows, columns = data.places()
        share = len(data) / (structure.shape[0] * structure.shape[1])
        return (
            lambda w: structure.entries(w, rows, columns),
            lambda z: structure.spread(z, rows, columns),
            share * structure.counts,
        )

    def spread(z: Floats) -> Floats:
        return np.bincount(index, z, structure.size).astype(np.float64)

    return lambda w: w[index], spread, spread(np.ones(len(index)))


def _index(structure: LinearStructure, data: Entries | Samples | Tasks | Bilinear | Elsewhere) -> Indices64 | None:
    """Which parameter each observation is; None where they are not single parameters."""
    return data.index if isinstance(data, Samples) else structure.place(*data.places())


def observed_parameters(problem: Problem, values: Floats) -> Floats:
    """Parameters as observed, those observed several times on the average, and zero where nothing is observed."""
    _, spread, diagonal = measure_of(problem)
    return np.asarray(spread(values) / np.where(diagonal > 0, diagonal, 1.0))


def share_observed(problem: Problem) -> float:
    """The part of the parameters that is observed, or of the entries of W, where these are not single parameters."""
    structure, data = problem.structure, problem.data
    assert isinstance(structure, LinearStructure)
    index = _index(structure, data)
    if index is None:
        return len(data) / (structure.shape[0] * structure.shape[1])
    return len(np.unique(index)) / structure.size


@dataclass(frozen=True)
class Warm:
    """What is remembered of the last solution."""

    w: Floats
    relative_gradient: float  #: the smaller it is, the more exact the next one has to be


class SmoothedLinear:
    """Inner solver for a quadratic loss and a smoothed linear structure."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        assert isinstance(problem.structure, Smoothed)
        self.structure, self.delta = problem.structure.structure, float(problem.structure.delta)
        self.C, self.y = problem.C, np.asarray(problem.data.values, dtype=np.float64)
        self.warm: Warm | None = None
        self.measure, self.spread, diagonal = measure_of(problem)
        self.diagonal: Floats = 2.0 * self.C * diagonal  #: of 2C M*M
        self.right_side: Floats = 2.0 * self.C * self.spread(self.y)

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        if not isinstance(problem.structure, Smoothed):
            return "needs a smoothed linear structure"
        if not problem.loss.quadratic:
            return f"needs a quadratic loss, {problem.loss!r} is not"
        if problem.row_weights is not None or problem.column_weights is not None:
            return "knows of no weights of rows and columns"
        return None

    def free(self) -> None:
        """Nothing is kept."""

    def solve(self, U: Floats) -> SmoothedSolution:
        theta = Theta(U, self.delta)
        warm = self.warm
        solution = SmoothedSolution(self, self._system(theta), theta, None if warm is None else warm.w)
        self.warm = Warm(solution.w, solution.relative_gradient)
        return solution

    def _system(self, theta: Theta) -> System:
        if isinstance(self.structure, Hankel) and self.structure.window <= WIDEST:
            return Banded(self.structure, self.diagonal, theta)
        accuracy = 1.0 if self.warm is None else self.warm.relative_gradient
        C2, measure, spread = 2.0 * self.C, self.measure, self.spread
        return Iterative(self.structure, lambda x: C2 * spread(measure(x)), self.diagonal, theta, accuracy)


class SmoothedSolution:
    """The inner problem solved at one U."""

    paid = 0.0

    def __init__(self, solver: SmoothedLinear, system: System, theta: Theta, start: Floats | None) -> None:
        self._solver, self._system, self._theta = solver, system, theta
        P = solver.structure
        self.w: Floats = system.solve(solver.right_side, start)
        self._w = P.parameters(self.w)
        projected = P.transposed_times(self._w, theta.Q)  # P(w)ᵀQ
        self.V: Floats = projected @ theta.to_V
        self.residual: Floats = solver.y - solver.measure(self.w)
        self._square = float(self.w @ P.gram(self.w))  # ‖W‖²
        inside = np.einsum("tk,tk->k", projected, projected)
        self._outside = max(self._square - float(inside.sum()), 0.0)
        self._beside = self._outside + float(inside @ (solver.delta * theta.inverses) ** 2)  # ‖W − U Vᵀ‖²
        self.penalty = 0.5 * (self._outside / solver.delta + float(inside @ theta.inverses))  # ½⟨Θ⁻¹W, W⟩
        self.value = solver.C * float(self.residual @ self.residual) + self.penalty
        self.gradient: Floats = -self.dual_times(self.V)
        size = float(np.linalg.norm(self.gradient))
        along = float(np.vdot(self.gradient, theta.U)) / float(np.linalg.norm(theta.U))
        self.relative_gradient = float(np.sqrt(max(size**2 - along**2, 0.0))) / size if size > 0 else 0.0

    def dual_times(self, X: Any) -> Floats:
        """S X = Θ⁻¹P(w) X."""
        return self._theta.solve(self._solver.structure.times(self._w, X))

    def dual_transposed_times(self, X: Floats) -> Floats:
        """SᵀX."""
        return self._solver.structure.transposed_times(self._w, self._theta.solve(X))

    def rounding_error(self) -> float:
        """Of the penalty, which has a difference of two numbers of the size of ‖W‖²/δ."""
        return float(np.finfo(float).eps) * self._square / self._solver.delta

    def cost_of_smoothing(self) -> float:
        """How far the value can be from that of the trace norm: trace Θ is 1 + δd where it should be 1."""
        delta = self._solver.delta
        return delta * len(self._theta.U) * self.penalty + 0.5 * self._beside / delta

    def trace_norm_term(self) -> float:
        """½‖W‖_*², from above: ½ trace(Θ)⟨Θ⁻¹W, W⟩ is so for every Θ."""
        return self._theta.trace * (self.penalty + self.rounding_error())

    def infeasibility(self) -> float:
        """By how much, at most, σ₁(S) would grow if P*(S) were made equal to M*z."""
        P, theta = self._solver.structure, self._theta
        of_S = (P.gram(self.w) - P.adjoint(theta.U, self.V)) / self._solver.delta
        return P.least_norm(self._solver.spread(self.dual()) - of_S)

    @cached_property
    def _prepared(self) -> tuple[Any, Any]:
        """U K and V, for the products of all derivatives."""
        P = self._solver.structure
        return P.left(self._theta.UK), P.right(self.V)

    def derivative(self, xi: Floats) -> Floats:
        P, theta, V, UK = self._solver.structure, self._theta, self.V, self._theta.UK
        left_UK, right_V = self._prepared
        solved = theta.solve(xi)  # Θ⁻¹ξ
        left_solved = P.left(solved)
        Q = P.transposed_times(self._w, left_solved)  # Sᵀξ
        moved = P.parameters(self._system.solve(P.adjoint(left_solved, right_V) + P.adjoint(left_UK, Q)))
        S_moved_V = theta.solve(P.times(moved, right_V)) - solved @ (V.T @ V) - UK @ (Q.T @ V)
        V_moved = P.transposed_times(moved, left_UK) - V @ (xi.T @ UK) - Q @ (UK.T @ theta.U) + Q
        return -(S_moved_V + self.dual_times(V_moved))

    def preconditioner(self) -> Callable[[Floats], Floats]:
        """All rows are solved with B = VᵀV/δ + ‖V‖² I, the curvature of |W − U Vᵀ|²/2δ at fixed V and W."""
        V = self.V
        B = V.T @ V / self._solver.delta + max(float(np.vdot(V, V)), np.finfo(float).tiny) * np.eye(V.shape[1])
        inverse = np.linalg.inv(B)
        inverse = 0.5 * (inverse + inverse.T)
        return lambda eta: eta @ inverse

    def dual(self) -> Floats:
        return 2.0 * self._solver.C * self.residual

    def multipliers(self) -> None:
        return None

    def release(self) -> None:
        """Nothing is kept for the next one."""
