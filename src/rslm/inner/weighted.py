"""The solution of an inner problem on entries, whatever the loss, and what follows from it.

With x_i = u_i/√p_i for row i and the derivatives of the loss at the solution, z = −C ℓ' and D = C ℓ'',

    q_t v_t = X_tᵀ z_t,                                         ∇g = −S V with rows scaled by 1/√p_i,
    (X_tᵀ D_t X_t + q_t) v̇_t = Ẋ_tᵀ z_t − X_tᵀ D_t Ẋ_t v_t,      ż_t = −D_t (Ẋ_t v_t + X_t v̇_t).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np

from rslm._typing import Floats
from rslm.inner.leverage import leverages
from rslm.kernels import Factors
from rslm.problem import Problem

STIFFEST = 1e-3  # beyond that one Newton step says nothing of where a column goes without an entry


class WeightedColumns:
    """A problem on entries in the form that the kernels want: the penalty of column t is ½ q_t |v_t|²."""

    def __init__(self, problem: Problem, n_threads: int) -> None:
        d, T = problem.shape
        self.C = problem.C
        self.loss = problem.loss
        self.data = problem.data
        self.columns = problem.data.columns
        self.y = problem.data.values
        self.n_threads = n_threads
        self.p = np.ones(d) if problem.row_weights is None else problem.row_weights
        self.q = np.ones(T) if problem.column_weights is None else problem.column_weights
        self.scale: Floats = (1.0 / np.sqrt(self.p))[:, None]


class WeightedSolution(ABC):
    """V and z at one U. The curvature D and the factors are made when a derivative is first asked for."""

    def __init__(self, solver: WeightedColumns, X: Floats, V: Floats, z: Floats, loss: float) -> None:
        self.solver, self.X, self.V = solver, X, V
        self._z: Floats | None = z
        self.weighted_square = float(np.einsum("t,tk,tk->", solver.q, V, V))  # ‖UᵀS‖²
        self.value = solver.C * loss + 0.5 * self.weighted_square
        self.gradient: Floats = -solver.scale * solver.columns.scatter(z, V, solver.n_threads)

    @abstractmethod
    def make_curvature(self) -> Floats:
        """D of every entry."""

    def make_broad_curvature(self) -> Floats:
        """D as a longer step would find it on the average."""
        return self.curvature

    @cached_property
    def curvature(self) -> Floats:
        return self.make_curvature()

    @cached_property
    def factors(self) -> Factors:
        """Of X_tᵀ D_t X_t + q_t."""
        s = self.solver
        return s.columns.factorise(self.X, s.q, s.n_threads, self.curvature)

    def derivative(self, xi: Floats) -> Floats:
        s, z = self.solver, self.dual()
        moved = s.columns.weighted_derivative(
            z, self.curvature, self.X, self.V, self.factors, xi * s.scale, s.n_threads
        )
        return s.scale * moved

    def preconditioner(self) -> Callable[[Floats], Floats]:
        """Row i is solved with B_i = (1/p_i) Σ_t D_it v_t v_tᵀ + ‖UᵀS‖² I."""
        s, _ = self.solver, self.dual()  # an error if it has been released
        shift = max(self.weighted_square, np.finfo(float).tiny)
        weight = self.make_broad_curvature()[s.data.row_order]
        factors = s.data.by_rows.factorise(self.V, s.p * shift, s.n_threads, weight)
        return lambda eta: s.p[:, None] * factors.solve(eta, s.n_threads)

    def left_out(self) -> Floats:
        s = self.solver
        h = leverages(s.columns, self.X, self.factors, s.n_threads)
        w = s.columns.predict(self.X, self.V, s.n_threads)
        rest = 1.0 - self.curvature * h  # 0 for an entry that its column follows wherever it goes
        return w - self.dual() * h / np.maximum(rest, STIFFEST)

    def dual(self) -> Floats:
        if self._z is None:
            raise RuntimeError("this evaluation has been released; evaluate the point again")
        return self._z

    def release(self) -> None:
        self._z = None
        for name in ("curvature", "factors"):
            self.__dict__.pop(name, None)
