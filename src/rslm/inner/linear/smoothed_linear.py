"""Smoothed linear structure: Newton's method in the parameters w; a quadratic loss needs one step.

W = P(w) + W₀, with W₀ = 0 unless the structure is affine. With weights p and q of rows and columns, all formulas are
for diag(√p) W diag(√q), see `WeightedStructure`. With Θ = UUᵀ + δI and K = (δI + UᵀU)⁻¹, so that Θ⁻¹U = U K,

    w = argmin C Σ ℓ(y, M W) + ½⟨Θ⁻¹ W, W⟩:   C M*s = P*(Θ⁻¹ W),   s = −ℓ',
    S = Θ⁻¹ W,   V = SᵀU = WᵀU K,   z = C s,   ∇g = −S V.

Where columns have intercepts b, which the trace norm does not penalise, m = M W + b, and b is solved for with w.
A Newton step solves with A = C M*D M + P*Θ⁻¹P, D = ℓ''. Along ξ, with Q = Sᵀξ:

    A ẇ = P*(Θ⁻¹ξ Vᵀ + U K Qᵀ),   Ṡ = Θ⁻¹P(ẇ) − Θ⁻¹ξ Vᵀ − U K Qᵀ,   V̇ = ṠᵀU + Q.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from rslm.inner.base import InnerSolution, InnerSolver
from rslm.inner.linear.hankel_system import hankel_system
from rslm.inner.linear.systems import Iterative, System, Theta, penalty_product
from rslm.inner.newton_steps import ENOUGH, SETTLED, step_length
from rslm.inner.obstacles import has_effects, has_kinks
from rslm.inner.terms import middle_of
from rslm.losses.checked import CheckedLoss
from rslm.problem import Problem
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats
from rslm.structures import Hankel, LinearStructure, Smoothed, WeightedStructure

Map = Callable[[Floats], Floats]
MOST_STEPS = 200
FREE = 1e-6  # negligible penalty of intercepts: a column with all errors far from kinks has no other curvature
SAFE = 1.01  # for what conjugate gradients leave of a correction


class Measured:
    """The measurement as a function of the parameters: M P, its adjoint, and the constant M W₀.

    The parameters are those of the structure, followed by the intercepts of the columns where there are any. Where
    every observation is a single parameter, M*D M is diagonal.
    """

    def __init__(self, problem: Problem) -> None:
        self.structure, self.data = linear_of(problem), problem.data
        self.intercepts = self.structure.shape[1] if problem.data.intercept else 0
        self.index = None if self.intercepts else self.data.index_in(self.structure)
        none = self.structure.offset is None or self.data.parameters is not None  # parameters are observed without W₀
        self.offset: Floats | float = 0.0 if none else self.data.of_matrix(self.structure.offset_matrix())
        self.middle = middle_of(problem)  # intercepts are relative to it
        if self.middle is not None:
            self.offset = self.offset + self.data.by_column(self.middle)
        d, T = self.structure.shape
        self._share = len(self.data) / (d * T) * self.data.gain

    def parted(self, x: Floats) -> tuple[Floats, Floats]:
        """The parameters of the structure, and the intercepts."""
        n = self.structure.size
        return x[:n], x[n:]

    def joined(self, w: Floats, b: Floats | None = None) -> Floats:
        """Parameters and intercepts in one array; None stands for intercepts of 0."""
        if not self.intercepts:
            return w
        return np.concatenate([w, np.zeros(self.intercepts) if b is None else b])

    def apply(self, x: Floats) -> Floats:
        """M P(w), plus the intercepts."""
        if self.index is not None:
            return np.asarray(x[self.index])
        w, b = self.parted(x)
        m = self.data.of_parameters(self.structure, w)
        return m + self.data.by_column(b) if self.intercepts else m

    def adjoint(self, z: Floats) -> Floats:
        """P*(M*z), and the sums of z over the columns."""
        if self.index is not None:
            return np.bincount(self.index, z, self.structure.size).astype(np.float64)
        of_w = self.data.to_parameters(self.structure, z)
        return np.concatenate([of_w, self.data.sums_by_column(z)]) if self.intercepts else of_w

    def diagonal(self, D: Floats) -> Floats:
        """The diagonal of P*M*D M P, approximate unless observations are single parameters; then there is no more."""
        if self.index is not None:
            return self.adjoint(D)
        of_w = float(D.mean()) * self._share * self.structure.counts
        return np.concatenate([of_w, self.data.sums_by_column(D)]) if self.intercepts else of_w


def linear_of(problem: Problem) -> LinearStructure:
    """The linear structure of a problem that has one."""
    structure = problem.structure.linear
    assert structure is not None
    return structure


def observed_parameters(problem: Problem, values: Floats) -> Floats:
    """The observed parameters: the average if one is observed several times, 0 if it is not observed."""
    measured = Measured(problem)
    diagonal = measured.diagonal(np.ones(len(values)))
    observed = measured.adjoint(values - measured.offset) / np.where(diagonal > 0, diagonal, 1.0)
    return measured.parted(np.asarray(observed))[0]


def share_observed(problem: Problem) -> float:
    """The fraction of the parameters that is observed, or of the entries of W if these are not single parameters."""
    structure, data = linear_of(problem), problem.data
    index = data.index_in(structure)
    if index is None:
        return len(data) / (structure.shape[0] * structure.shape[1])
    return len(np.unique(index)) / structure.size


@dataclass(frozen=True)
class Warm:
    """What is kept of the last solution."""

    x: Floats
    relative_gradient: float  #: the smaller it is, the more accurate the next solution must be


class SmoothedLinear(InnerSolver):
    """Inner solver for a smoothed linear structure and any loss with a second derivative."""

    tightens = True

    def __init__(self, problem: Problem, n_threads: int) -> None:
        self.structure, self.delta = linear_of(problem), float(cast(Smoothed, problem.structure).delta)
        self.C, self.y = problem.C, np.asarray(problem.data.values, dtype=np.float64)
        self.quadratic, self.loss = problem.loss.quadratic, CheckedLoss(problem.loss)
        self.warm: Warm | None = None
        self.measured = Measured(problem)
        self.column_scale: Floats | float = 1.0  # converts V of the weighted matrix to that of W
        if problem.row_weights is not None or problem.column_weights is not None:
            self.structure = WeightedStructure(self.structure, problem.row_weights, problem.column_weights)
            if problem.column_weights is not None:
                self.column_scale = 1.0 / np.sqrt(problem.column_weights)[:, None]
        if self.quadratic:
            self.diagonal: Floats = self.C * self.measured.diagonal(np.full(len(self.y), 2.0))
            self.right_side: Floats = 2.0 * self.C * self.measured.adjoint(self.y - self.measured.offset)

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        if problem.structure.form != "smoothed":
            return "needs a smoothed linear structure"
        return has_kinks(problem) or has_effects(problem)

    def solve(self, U: Floats) -> SmoothedSolution:
        theta = Theta(U, self.delta)
        if self.quadratic:
            system = self._system(theta, None)
            right_side = self.right_side - self._of_offset(theta)
            solution = SmoothedSolution(
                self, system, theta, system.solve(right_side, None if self.warm is None else self.warm.x)
            )
        else:
            solution = SmoothedSolution(self, *self._newton(theta))
        self.warm = Warm(solution.x, solution.relative_gradient)
        return solution

    def _of_offset(self, theta: Theta) -> Floats | float:
        """P*(Θ⁻¹W₀)."""
        if self.structure.offset is None:
            return 0.0
        return self.measured.joined(np.asarray(self.structure.of_offset(theta.solve)))

    def _penalty(self, theta: Theta) -> Map:
        """x ↦ P*(Θ⁻¹P(w)), with a negligible penalty of the intercepts."""
        product, measured = penalty_product(self.structure, theta), self.measured
        if not measured.intercepts:
            return product

        def of_both(x: Floats) -> Floats:
            w, b = measured.parted(x)
            return measured.joined(product(w), FREE * b)

        return of_both

    def _system(self, theta: Theta, D: Floats | None) -> System:
        """The system of a Newton step; D is ℓ'', None for a quadratic loss."""
        diagonal = self.diagonal if D is None else self.C * self.measured.diagonal(D)
        accuracy = 1.0 if self.warm is None else self.warm.relative_gradient
        if self.measured.index is not None and self.structure.bandwidth is not None:
            return hankel_system(cast(Hankel, self.structure), diagonal, theta, accuracy)
        weight: Floats | float = 2.0 * self.C if D is None else self.C * D
        apply, adjoint, penalty = self.measured.apply, self.measured.adjoint, self._penalty(theta)
        free = np.full(self.measured.intercepts, FREE)
        diagonal = diagonal + self.measured.joined(self.structure.counts * theta.average, free)
        return Iterative(lambda x: adjoint(weight * apply(x)) + penalty(x), lambda x: x / diagonal, accuracy)

    def _newton(self, theta: Theta) -> tuple[System, Theta, Floats]:
        """Newton's method, warm-started from the last solution: the system at x, Θ and x."""
        penalty, of_offset, measured = self._penalty(theta), self._of_offset(theta), self.measured
        x = np.zeros(self.structure.size + measured.intercepts) if self.warm is None else self.warm.x
        before = math.inf
        for count in range(MOST_STEPS):
            raise_if_stopped()
            m = measured.apply(x) + measured.offset
            D, of_x = self.loss("hessian", self.y, m), penalty(x)
            slopes = self.C * self.loss("gradient", self.y, m)
            system = self._system(theta, D)
            descent = -measured.adjoint(slopes) - of_x - of_offset
            step = system.solve(descent)
            decrement = float(step @ descent)
            size = max(float(x @ of_x), 0.0) + self.C * float(D @ (m * m))
            settled = decrement <= SETTLED**2 * size and decrement >= before
            if not decrement > ENOUGH**2 * size or settled:
                break
            before = decrement
            length = step_length(self._slopes_along(step, m, slopes, decrement, penalty), -decrement, count)
            if length == 0.0:
                break
            x = x + length * step
        return system, theta, x

    def _slopes_along(
        self, step: Floats, m: Floats, slopes: Floats, decrement: float, penalty: Map
    ) -> Callable[[float], float]:
        """The derivative of the objective at any length along a step."""
        change = self.measured.apply(step)
        bend, of_loss = float(step @ penalty(step)), float(slopes @ change)

        def slope_at(length: float) -> float:
            there = self.C * float(self.loss("gradient", self.y, m + length * change) @ change)
            return there - decrement - of_loss + length * bend

        return slope_at


class SmoothedSolution(InnerSolution):
    """The solution of the inner problem at one U. It also provides products with the dual matrix S = Θ⁻¹W."""

    def __init__(self, solver: SmoothedLinear, system: System, theta: Theta, x: Floats) -> None:
        self._solver, self._theta, self.x = solver, theta, x
        self._system: System | None = system
        P = solver.structure
        self.parameters: Floats
        self.parameters, self._intercepts = solver.measured.parted(x)
        self._w = P.parameters(self.parameters)
        projected = P.whole_transposed_times(self._w, theta.Q)  # WᵀQ
        self._V: Floats = projected @ theta.to_V
        self.V = self._V * solver.column_scale
        self.predictions: Floats = solver.measured.apply(x) + solver.measured.offset
        self._square = P.square(self.parameters)  # ‖W‖²
        inside = np.einsum("tk,tk->k", projected, projected)
        self._outside = max(self._square - float(inside.sum()), 0.0)
        self._off_low_rank = self._outside + float(inside @ (solver.delta * theta.inverses) ** 2)  # ‖W − U Vᵀ‖²
        self.penalty = 0.5 * (self._outside / solver.delta + float(inside @ theta.inverses))  # ½⟨Θ⁻¹W, W⟩
        if solver.quadratic:
            self.residual: Floats = solver.y - self.predictions
            loss = float(self.residual @ self.residual)
        else:
            loss = float(solver.loss("value", solver.y, self.predictions).sum())
        b = self._intercepts
        # ⟨Θ⁻¹W, W⟩ contains a difference of two numbers of the size of ‖W‖²/δ.
        self.noise = float(np.finfo(float).eps) * self._square / solver.delta
        self.value = solver.C * loss + self.penalty + 0.5 * FREE * float(b @ b)
        self.gradient = -self.times(self._V)
        size = float(np.linalg.norm(self.gradient))
        along = float(np.vdot(self.gradient, theta.U)) / float(np.linalg.norm(theta.U))
        self.relative_gradient = float(np.sqrt(max(size**2 - along**2, 0.0))) / size if size > 0 else 0.0

    def intercepts(self) -> Floats | None:
        middle = self._solver.measured.middle
        return None if middle is None else self._intercepts + middle

    # ---- the dual matrix ---------------------------------------------------------------------------------------------

    @property
    def structured_dual(self) -> SmoothedSolution:  # type: ignore[override]
        return self

    def times(self, Y: Any) -> Floats:
        """S Y = Θ⁻¹W Y."""
        return self._theta.solve(self._solver.structure.whole_times(self._w, Y))

    def transposed_times(self, X: Floats) -> Floats:
        """SᵀX."""
        return self._solver.structure.whole_transposed_times(self._w, self._theta.solve(X))

    def support(self, z: Floats) -> float:
        P, measured = self._solver.structure, self._solver.measured
        if P.offset is None:
            return 0.0
        S = self.times(np.eye(P.shape[1]))
        return float(np.sum(P.offset_matrix() * S)) - float(np.sum(z * measured.offset))

    def correction(self, z: Floats) -> tuple[float, float]:
        P, theta, measured = self._solver.structure, self._theta, self._solver.measured
        of_S = (P.whole_gram(self.parameters) - P.adjoint(theta.U, self._V)) / self._solver.delta
        missing = measured.parted(measured.adjoint(z))[0] - of_S
        x = P.least_norm_parameters(missing)
        norm = SAFE * math.sqrt(max(float(x @ missing), 0.0)) if np.isfinite(x).all() else math.inf
        return norm, float(np.sum(x * P.of_offset(lambda W: W)))

    # ---- the trace norm ----------------------------------------------------------------------------------------------

    def cost_of_smoothing(self) -> float:
        """An upper bound on the distance of the value from that with the trace norm: trace Θ is 1 + δd instead of 1."""
        delta = self._solver.delta
        return delta * len(self._theta.U) * self.penalty + 0.5 * self._off_low_rank / delta

    def trace_norm_term(self) -> float:
        return self._trace_norm_term

    @cached_property
    def _trace_norm_term(self) -> float:
        """½‖W‖_*² if W is small enough to be formed, otherwise the upper bound ½ trace(Θ)⟨Θ⁻¹W, W⟩."""
        P = self._solver.structure
        bound = self._theta.trace * (self.penalty + self.noise)
        if not P.formable:
            return bound
        return min(bound, 0.5 * float(np.linalg.norm(P.whole_matrix(self.parameters), "nuc")) ** 2)

    # ---- derivatives -------------------------------------------------------------------------------------------------

    @cached_property
    def _prepared(self) -> tuple[Any, Any]:
        """U K and V, prepared for the products in every derivative."""
        P = self._solver.structure
        return P.left(self._theta.UK), P.right(self._V)

    def release(self) -> None:
        self._system = None  # the factors of a wide window are much larger than everything else
        self.__dict__.pop("_prepared", None)

    def derivative(self, xi: Floats) -> Floats:
        if self._system is None:
            raise RuntimeError("this evaluation has been released; evaluate the point again")
        P, theta, V, UK = self._solver.structure, self._theta, self._V, self._theta.UK
        measured = self._solver.measured
        left_UK, right_V = self._prepared
        solved = theta.solve(xi)  # Θ⁻¹ξ
        left_solved = P.left(solved)
        Q = P.whole_transposed_times(self._w, left_solved)  # Sᵀξ
        right_side = P.adjoint(left_solved, right_V) + P.adjoint(left_UK, Q)
        moved = P.parameters(measured.parted(self._system.solve(measured.joined(right_side)))[0])
        S_moved_V = theta.solve(P.times(moved, right_V)) - solved @ (V.T @ V) - UK @ (Q.T @ V)
        V_moved = P.transposed_times(moved, left_UK) - V @ (xi.T @ UK) - Q @ (UK.T @ theta.U) + Q
        return -(S_moved_V + self.times(V_moved))

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
