"""Linear structure, smoothed: Newton's method in the parameters w, of which a quadratic loss needs one step.

W = P(w) + W₀, with W₀ = 0 unless the structure is affine. Where rows and columns have weights p and q, all formulas
are those of diag(√p) W diag(√q), see `WeightedStructure`. With Θ = UUᵀ + δI and K = (δI + UᵀU)⁻¹, so that Θ⁻¹U = U K,

    w = argmin C Σ ℓ(y, M W) + ½⟨Θ⁻¹ W, W⟩:   C M*s = P*(Θ⁻¹ W),   s = −ℓ',
    S = Θ⁻¹ W,   V = SᵀU = WᵀU K,   z = C s,   ∇g = −S V.

A Newton step solves with A = C M*D M + P*Θ⁻¹P, D = ℓ''. Along ξ, with Q = Sᵀξ:

    A ẇ = P*(Θ⁻¹ξ Vᵀ + U K Qᵀ),   Ṡ = Θ⁻¹P(ẇ) − Θ⁻¹ξ Vᵀ − U K Qᵀ,   V̇ = ṠᵀU + Q.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rslm.inner.linear_systems import WIDEST, Banded, Iterative, System, Theta, penalty_product
from rslm.inner.newton import Newton
from rslm.losses.checked import CheckedLoss
from rslm.measurements import Entries, Measurement, Samples
from rslm.measurements.remote import Elsewhere
from rslm.problem import Problem
from rslm.runtime.interrupts import look
from rslm.runtime.types import Floats, Indices64
from rslm.structures import Hankel, LinearStructure, Smoothed, WeightedStructure

Map = Callable[[Floats], Floats]
ENOUGH = 1e-11  # relative length of a step, in the norm of the Hessian, that is not worth taking
SETTLED = 1e-7  # a step this small that is no shorter than the one before is made of rounding errors
UPHILL = 0.1  # slope at the end of a step, relative to that at its start, up to which it is not too long
CAUTIOUS = 10  # after this many steps not even that
MOST_STEPS, MOST_TRIALS = 200, 60
NEAR_TRIALS = 5  # by the secant rule; a step that is still too long is far too long
WIDTH = 64  # columns of a matrix of full rank that are measured at a time


class Measured:
    """The measurement as a function of the parameters: M P, its adjoint, and the offset M W₀.

    Where every observation is a single parameter, `index` says which, and M*D M is diagonal.
    """

    def __init__(self, problem: Problem) -> None:
        assert isinstance(problem.structure, Smoothed)
        self.structure, data = problem.structure.structure, problem.data
        self.index = _index(self.structure, data)
        self.offset: Floats | float = 0.0
        self._places = data.places() if isinstance(data, Entries) else None
        if isinstance(data, Samples):
            return
        assert isinstance(data, Measurement)
        self._data, self._share = data, len(data) / (self.structure.shape[0] * self.structure.shape[1]) * data.gain
        if self.structure.offset is not None:
            self.offset = self._of_matrix(self.structure.offset_matrix())

    def apply(self, w: Floats) -> Floats:
        """M P(w)."""
        if self.index is not None:
            return np.asarray(w[self.index])
        if self._places is not None:
            return self.structure.entries(w, *self._places)
        return self._of_matrix(self.structure.matrix(w))

    def _of_matrix(self, W: Floats) -> Floats:
        """M W, for a W of full rank: some columns at a time."""
        total, unit = np.zeros(len(self._data)), np.eye(W.shape[1])
        for k in range(0, W.shape[1], WIDTH):
            total += self._data.apply(np.ascontiguousarray(W[:, k : k + WIDTH]), unit[:, k : k + WIDTH].copy())
        return total

    def adjoint(self, z: Floats) -> Floats:
        """P*(M*z)."""
        if self.index is not None:
            return np.bincount(self.index, z, self.structure.size).astype(np.float64)
        if self._places is not None:
            return self.structure.spread(z, *self._places)
        unit = np.eye(self.structure.shape[1])
        parts = (unit[:, k : k + WIDTH].copy() for k in range(0, len(unit), WIDTH))
        total = sum(self.structure.adjoint(self._data.adjoint_times(z, Y), Y) for Y in parts)
        return np.asarray(total)

    def diagonal(self, D: Floats) -> Floats:
        """That of P*M*D M P, which is all of it where observations are single parameters."""
        if self.index is not None:
            return self.adjoint(D)
        return float(D.mean()) * self._share * self.structure.counts


def _index(structure: LinearStructure, data: Measurement | Elsewhere) -> Indices64 | None:
    """Which parameter each observation is; None where they are not single parameters."""
    if isinstance(data, Samples):
        return data.index
    return structure.place(*data.places()) if isinstance(data, Entries) else None


def observed_parameters(problem: Problem, values: Floats) -> Floats:
    """Parameters as observed, those observed several times on the average, and zero where nothing is observed."""
    measured = Measured(problem)
    diagonal = measured.diagonal(np.ones(len(values)))
    return np.asarray(measured.adjoint(values - measured.offset) / np.where(diagonal > 0, diagonal, 1.0))


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
    """Inner solver for a smoothed linear structure and any loss with a second derivative."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        assert isinstance(problem.structure, Smoothed)
        self.structure, self.delta = problem.structure.structure, float(problem.structure.delta)
        self.C, self.y = problem.C, np.asarray(problem.data.values, dtype=np.float64)
        self.quadratic, self.loss = problem.loss.quadratic, CheckedLoss(problem.loss)
        self.warm: Warm | None = None
        self.measured = Measured(problem)
        self.column_scale: Floats | float = 1.0  # by which rows of V, as the weighted matrix has it, become those of W
        if problem.row_weights is not None or problem.column_weights is not None:
            self.structure = WeightedStructure(self.structure, problem.row_weights, problem.column_weights)
            if problem.column_weights is not None:
                self.column_scale = 1.0 / np.sqrt(problem.column_weights)[:, None]
        if self.quadratic:
            self.diagonal: Floats = self.C * self.measured.diagonal(np.full(len(self.y), 2.0))
            self.right_side: Floats = 2.0 * self.C * self.measured.adjoint(self.y - self.measured.offset)

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        if not isinstance(problem.structure, Smoothed):
            return "needs a smoothed linear structure"
        return Newton.smooth(problem)

    def free(self) -> None:
        """Nothing is kept."""

    def solve(self, U: Floats) -> SmoothedSolution:
        theta = Theta(U, self.delta)
        if self.quadratic:
            system = self._system(theta, None)
            right_side = self.right_side - self.structure.of_offset(theta.solve)
            w = system.solve(right_side, None if self.warm is None else self.warm.w)
            solution = SmoothedSolution(self, system, theta, w)
        else:
            solution = SmoothedSolution(self, *self._newton(theta))
        self.warm = Warm(solution.w, solution.relative_gradient)
        return solution

    def _system(self, theta: Theta, D: Floats | None) -> System:
        """That of a Newton step; D is ℓ'', None for a quadratic loss."""
        diagonal = self.diagonal if D is None else self.C * self.measured.diagonal(D)
        diagonal_alone = self.measured.index is not None
        if diagonal_alone and isinstance(self.structure, Hankel) and self.structure.window <= WIDEST:
            return Banded(self.structure, diagonal, theta)
        accuracy = 1.0 if self.warm is None else self.warm.relative_gradient
        weight: Floats | float = 2.0 * self.C if D is None else self.C * D
        apply, adjoint = self.measured.apply, self.measured.adjoint
        return Iterative(self.structure, lambda x: adjoint(weight * apply(x)), diagonal, theta, accuracy)

    def _newton(self, theta: Theta) -> tuple[System, Theta, Floats]:
        """Newton's method from the last solution: the system at w, and w."""
        product = penalty_product(self.structure, theta)
        of_offset = self.structure.of_offset(theta.solve)
        w = np.zeros(self.structure.size) if self.warm is None else self.warm.w
        before = math.inf
        for count in range(MOST_STEPS):
            look()
            m = self.measured.apply(w) + self.measured.offset
            D = self.loss("hessian", self.y, m)
            system, Bw = self._system(theta, D), product(w)
            descent = -self.C * self.measured.adjoint(self.loss("gradient", self.y, m)) - Bw - of_offset
            step = system.solve(descent)
            decrement = float(step @ descent)
            size = max(float(w @ Bw), 0.0) + self.C * float(D @ (m * m))
            settled = decrement <= SETTLED**2 * size and decrement >= before
            if not decrement > ENOUGH**2 * size or settled:
                break
            before = decrement
            length = self._length(step, descent, product, m, UPHILL if count < CAUTIOUS else 0.0)
            if length == 0.0:
                break
            w = w + length * step
        return system, theta, w

    def _length(self, step: Floats, descent: Floats, product: Map, m: Floats, uphill: float) -> float:
        """How far to go along a step: all of it unless that is too far, then near the lowest point; 0 if nowhere."""
        change, slope = self.measured.apply(step), -float(step @ descent)
        bend, of_loss = float(step @ product(step)), self.C * float(self.loss("gradient", self.y, m) @ change)
        length, high = 1.0, math.inf
        for count in range(MOST_TRIALS):
            at = self.C * float(self.loss("gradient", self.y, m + length * change) @ change)
            here = slope - of_loss + length * bend + at
            if here <= -uphill * slope:
                return length
            high = length
            guess = high * slope / (slope - here) if math.isfinite(here) else 0.0
            length = min(max(guess, 0.1 * high), 0.9 * high) if count < NEAR_TRIALS else 0.1 * high
        return 0.0


class SmoothedSolution:
    """The inner problem solved at one U."""

    paid = 0.0

    def __init__(self, solver: SmoothedLinear, system: System, theta: Theta, w: Floats) -> None:
        self._solver, self._system, self._theta = solver, system, theta
        P = solver.structure
        self.w: Floats = w
        self._w = P.parameters(self.w)
        projected = P.whole_transposed_times(self._w, theta.Q)  # WᵀQ
        self._V: Floats = projected @ theta.to_V
        self.V: Floats = self._V * solver.column_scale
        self.predictions: Floats = solver.measured.apply(self.w) + solver.measured.offset
        self._square = P.square(self.w)  # ‖W‖²
        inside = np.einsum("tk,tk->k", projected, projected)
        self._outside = max(self._square - float(inside.sum()), 0.0)
        self._beside = self._outside + float(inside @ (solver.delta * theta.inverses) ** 2)  # ‖W − U Vᵀ‖²
        self.penalty = 0.5 * (self._outside / solver.delta + float(inside @ theta.inverses))  # ½⟨Θ⁻¹W, W⟩
        if solver.quadratic:
            self.residual: Floats = solver.y - self.predictions
            loss = float(self.residual @ self.residual)
        else:
            loss = float(solver.loss("value", solver.y, self.predictions).sum())
        self.value = solver.C * loss + self.penalty
        self.gradient: Floats = -self.dual_times(self._V)
        size = float(np.linalg.norm(self.gradient))
        along = float(np.vdot(self.gradient, theta.U)) / float(np.linalg.norm(theta.U))
        self.relative_gradient = float(np.sqrt(max(size**2 - along**2, 0.0))) / size if size > 0 else 0.0

    def dual_times(self, X: Any) -> Floats:
        """S X = Θ⁻¹W X."""
        return self._theta.solve(self._solver.structure.whole_times(self._w, X))

    def dual_transposed_times(self, X: Floats) -> Floats:
        """SᵀX."""
        return self._solver.structure.whole_transposed_times(self._w, self._theta.solve(X))

    def support(self) -> float:
        """⟨S − M*z, W₀⟩: what a dual value has on top where the structure is affine."""
        solver = self._solver
        if solver.structure.offset is None:
            return 0.0
        of_data = float(np.sum(self.dual() * solver.measured.offset))
        return float(np.sum(solver.structure.offset * self.dual_times(np.eye(len(self._V))))) - of_data

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
        of_S = (P.whole_gram(self.w) - P.adjoint(theta.U, self._V)) / self._solver.delta
        return P.least_norm(self._solver.measured.adjoint(self.dual()) - of_S)

    @cached_property
    def _prepared(self) -> tuple[Any, Any]:
        """U K and V, for the products of all derivatives."""
        P = self._solver.structure
        return P.left(self._theta.UK), P.right(self._V)

    def derivative(self, xi: Floats) -> Floats:
        P, theta, V, UK = self._solver.structure, self._theta, self._V, self._theta.UK
        left_UK, right_V = self._prepared
        solved = theta.solve(xi)  # Θ⁻¹ξ
        left_solved = P.left(solved)
        Q = P.whole_transposed_times(self._w, left_solved)  # Sᵀξ
        moved = P.parameters(self._system.solve(P.adjoint(left_solved, right_V) + P.adjoint(left_UK, Q)))
        S_moved_V = theta.solve(P.times(moved, right_V)) - solved @ (V.T @ V) - UK @ (Q.T @ V)
        V_moved = P.transposed_times(moved, left_UK) - V @ (xi.T @ UK) - Q @ (UK.T @ theta.U) + Q
        return -(S_moved_V + self.dual_times(V_moved))

    def preconditioner(self) -> Callable[[Floats], Floats]:
        """All rows are solved with B = VᵀV/δ + ‖V‖² I, the curvature of |W − U Vᵀ|²/2δ at fixed V and W."""
        V = self._V
        B = V.T @ V / self._solver.delta + max(float(np.vdot(V, V)), np.finfo(float).tiny) * np.eye(V.shape[1])
        inverse = np.linalg.inv(B)
        inverse = 0.5 * (inverse + inverse.T)
        return lambda eta: eta @ inverse

    def dual(self) -> Floats:
        solver = self._solver
        if solver.quadratic:
            return 2.0 * solver.C * self.residual
        return -solver.C * solver.loss("gradient", solver.y, self.predictions)

    def multipliers(self) -> None:
        return None

    def release(self) -> None:
        """Nothing is kept for the next one."""
