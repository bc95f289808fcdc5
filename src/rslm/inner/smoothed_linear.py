"""Linear structure, smoothed, under a quadratic loss: one linear system in the parameters w.

With Θ = UUᵀ + δI and K = (δI + UᵀU)⁻¹, so that Θ⁻¹ = (I − U K Uᵀ)/δ and Θ⁻¹U = U K,

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

from rslm._typing import Floats
from rslm.inner.linear_systems import WIDEST, Banded, Iterative, System
from rslm.measurements import Samples
from rslm.problem import Problem
from rslm.structures import Hankel, Linear, LinearStructure, Smoothed

Map = Callable[[Floats], Floats]


def measure_of(problem: Problem) -> tuple[Map, Map, Floats]:
    """M, M* and the diagonal of M*M, which is all of it where observations are single parameters."""
    assert isinstance(problem.structure, Smoothed)
    structure, data = problem.structure.structure, problem.data
    if isinstance(structure, Linear) and not isinstance(data, Samples):
        rows, columns = data.places()
        share = len(data) / (structure.shape[0] * structure.shape[1])
        return (
            lambda w: structure.entries(w, rows, columns),
            lambda z: structure.spread(z, rows, columns),
            share * structure.counts,
        )
    index = data.index if isinstance(data, Samples) else structure.place(*data.places())

    def spread(z: Floats) -> Floats:
        return np.bincount(index, z, structure.size).astype(np.float64)

    return lambda w: w[index], spread, spread(np.ones(len(index)))


def observed_parameters(problem: Problem, values: Floats) -> Floats:
    """Parameters as observed, those observed several times on the average, and zero where nothing is observed."""
    _, spread, diagonal = measure_of(problem)
    return np.asarray(spread(values) / np.where(diagonal > 0, diagonal, 1.0))


def share_observed(problem: Problem) -> float:
    """The part of the parameters that is observed, or of the entries of W, where these are not single parameters."""
    structure, data = problem.structure, problem.data
    assert isinstance(structure, LinearStructure)
    if isinstance(data, Samples):
        return len(data) / data.size
    if isinstance(structure, Linear):
        return len(data) / (structure.shape[0] * structure.shape[1])
    return len(np.unique(structure.place(*data.places()))) / structure.size


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
        K = np.linalg.inv(self.delta * np.eye(U.shape[1]) + U.T @ U)
        warm = self.warm
        solution = SmoothedSolution(self, self._system(U, K), U, K, None if warm is None else warm.w)
        self.warm = Warm(solution.w, solution.relative_gradient)
        return solution

    def _system(self, U: Floats, K: Floats) -> System:
        if isinstance(self.structure, Hankel) and self.structure.window <= WIDEST:
            return Banded(self.structure, self.diagonal, U, K, self.delta)
        accuracy = 1.0 if self.warm is None else self.warm.relative_gradient
        C2, measure, spread = 2.0 * self.C, self.measure, self.spread
        return Iterative(self.structure, lambda x: C2 * spread(measure(x)), self.diagonal, U, K, self.delta, accuracy)


class SmoothedSolution:
    """The inner problem solved at one U."""

    paid = 0.0

    def __init__(self, solver: SmoothedLinear, system: System, U: Floats, K: Floats, start: Floats | None) -> None:
        self._solver, self._system, self._U, self._K = solver, system, U, K
        P, delta = solver.structure, solver.delta
        self.w: Floats = system.solve(solver.right_side, start)
        self._w = P.parameters(self.w)
        self._of_U = of_U = P.transposed_times(self._w, U)  # P(w)ᵀU
        self.V: Floats = of_U @ K
        self.residual: Floats = solver.y - solver.measure(self.w)
        self.penalty = 0.5 * (float(self.w @ P.gram(self.w)) - float(np.vdot(of_U, self.V))) / delta  # ½⟨Θ⁻¹W, W⟩
        self.value = solver.C * float(self.residual @ self.residual) + self.penalty
        self.gradient: Floats = -self.dual_times(self.V)
        size = float(np.linalg.norm(self.gradient))
        along = float(np.vdot(self.gradient, U)) / float(np.linalg.norm(U))
        self.relative_gradient = float(np.sqrt(max(size**2 - along**2, 0.0))) / size if size > 0 else 0.0

    def dual_times(self, X: Floats) -> Floats:
        """S X = (P(w) X − U VᵀX)/δ."""
        return (self._solver.structure.times(self._w, X) - self._U @ (self.V.T @ X)) / self._solver.delta

    def dual_transposed_times(self, X: Floats) -> Floats:
        """SᵀX."""
        return (self._solver.structure.transposed_times(self._w, X) - self.V @ (self._U.T @ X)) / self._solver.delta

    def rounding_error(self) -> float:
        """Of the penalty, a difference of two numbers of the size of ‖W‖²/δ."""
        square = float(self.w @ self._solver.structure.gram(self.w))
        return float(np.finfo(float).eps) * square / self._solver.delta

    def cost_of_smoothing(self) -> float:
        """How far the value can be from that of the trace norm: trace Θ is 1 + δd where it should be 1."""
        delta = self._solver.delta
        outside = float(self.w @ self._solver.structure.gram(self.w)) - 2.0 * float(np.vdot(self._of_U, self.V))
        outside += float(np.vdot(self._U.T @ self._U, self.V.T @ self.V))  # ‖W − U Vᵀ‖²
        return float(delta * len(self._U) * self.penalty + 0.5 * max(outside, 0.0) / delta)

    def trace_norm_term(self) -> float:
        """½‖W‖_*², from above: (½ trace Θ)⟨Θ⁻¹W, W⟩ is so for every Θ."""
        U = self._U
        return (float(np.vdot(U, U)) + self._solver.delta * len(U)) * self.penalty

    def infeasibility(self) -> float:
        """By how much, at most, σ₁(S) would grow if P*(S) were made equal to M*z."""
        P, z = self._solver.structure, self.dual()
        rest = self._solver.spread(z) - (P.gram(self.w) - P.adjoint(self._U, self.V)) / self._solver.delta
        return float(np.sqrt(np.sum(rest**2 / P.counts)))

    @cached_property
    def _prepared(self) -> tuple[Any, Any]:
        """U K and V, for the products of all derivatives."""
        P = self._solver.structure
        return P.left(self._U @ self._K), P.right(self.V)

    def derivative(self, xi: Floats) -> Floats:
        s, U, V, K = self._solver, self._U, self.V, self._K
        P, delta = s.structure, s.delta
        Q = self.dual_transposed_times(xi)
        UK, inverse_xi = U @ K, (xi - U @ (K @ (U.T @ xi))) / delta  # Θ⁻¹U and Θ⁻¹ξ
        left_UK, right_V = self._prepared
        b = P.adjoint(inverse_xi, right_V) + P.adjoint(left_UK, Q)
        moved = P.parameters(self._system.solve(b))
        moved_V = P.times(moved, right_V)
        S_moved_V = (moved_V - UK @ (U.T @ moved_V)) / delta - inverse_xi @ (V.T @ V) - UK @ (Q.T @ V)
        V_moved = P.transposed_times(moved, left_UK) - V @ (xi.T @ UK) - Q @ (UK.T @ U) + Q
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

    def left_out(self) -> Floats:
        raise NotImplementedError("an entry of a structured matrix is not predicted from its column alone")

    def release(self) -> None:
        """Nothing is kept for the next one."""
