"""The interface of inner solvers and of their solutions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np

from rslm.linalg.products import Products
from rslm.location import Effects
from rslm.problem import Problem
from rslm.runtime.types import Floats
from rslm.structures import Multipliers


class StructuredDual(Products, Protocol):
    """The dual matrix S of a problem with linear structure."""

    def support(self, z: Floats) -> float:
        """⟨S − M*z, W₀⟩: the part of the dual value that comes from an affine structure."""

    def correction(self, z: Floats) -> tuple[float, float]:
        """‖E‖_F, from above, and ⟨E, W₀⟩ for the least E with P*(S + E) = P*(M*z), which makes S feasible."""


class InnerSolution(ABC):
    """The solution of the inner problem at one U, with all that its derivatives need."""

    value: float  #: g(U)
    V: Floats  #: (T, r); the learned matrix is W = diag(1/√p) U Vᵀ
    gradient: Floats  #: ∇g(U) = −S V, Euclidean
    violation_cost: float = 0.0  #: the part of the value that W pays for violating soft bounds
    noise: float = 0.0  #: rounding error of the value, where it is larger than that of a sum
    predictions: Floats | None = None  #: M W, where W is not U Vᵀ
    parameters: Floats | None = None  #: w of a linear structure
    effects: Effects | None = None  #: the values of the location
    structured_dual: StructuredDual | None = None  #: S of a linear structure; None where S = M*z + multipliers
    rough: bool = False  #: whether `derivative` may be in single precision; set by the outer solver

    @abstractmethod
    def derivative(self, xi: Floats) -> Floats:
        """D∇g(U)[ξ]."""

    @abstractmethod
    def preconditioner(self) -> Callable[[Floats], Floats]:
        """An approximate inverse of the Hessian that acts on every row separately, symmetric and positive definite."""

    @abstractmethod
    def dual(self) -> Floats:
        """The dual variable z of every observation."""

    def row_curvature(self, typical: float | None = None, bounds: bool = True) -> tuple[Floats, float]:
        """One r×r block of the Hessian per row, and a scalar added to every diagonal; only for entries.

        `typical` is the typical error of all observations, needed where this solution has only a part of them; `bounds`
        says whether active bounds count.
        """
        raise TypeError("row_curvature is available only for observed entries")

    def column_curvature(self) -> Floats:
        """Σ C ω ℓ'' over the observations of every column."""
        raise TypeError(f"{type(self).__name__} does not support a location")

    def mean_curvature(self, ridge: float | None) -> tuple[float, float]:
        """Σ C ω ℓ'' over all observations, with column effects of this `ridge` eliminated, if there are any, and
        without."""
        curvature = self.column_curvature()
        total = float(curvature.sum())
        if ridge is None:
            return total, total
        return float(np.sum(curvature * ridge / np.maximum(curvature + ridge, np.finfo(float).tiny))), total

    @property
    def extended(self) -> InnerSolution:
        """The solution of `Problem.extended` that this one comes from; itself without a location."""
        return self

    def along_offset(self, offset: Floats) -> tuple[Floats, Floats]:
        """The derivatives of the gradient and of the dual variables as predictions move along an `offset`."""
        raise TypeError(f"{type(self).__name__} does not support covariates")

    def multipliers(self) -> Multipliers | None:
        """The multipliers of the bounds; None where there are no bounds."""
        return None

    def intercepts(self) -> Floats | None:
        """The intercepts of the columns; None where there are none."""
        return None

    def within_bounds(self) -> tuple[Floats, InnerSolution] | None:
        """U and a solution nearby whose W keeps the bounds, if the problem has soft bounds; otherwise None.

        Its value is infinite if no such W was found.
        """
        return None

    def trace_norm_term(self) -> float | None:
        """½‖W‖_*² or an upper bound on it, where W is not U Vᵀ; otherwise None."""
        return None

    def cost_of_smoothing(self) -> float:
        """An upper bound on the change of the value that is due to smoothing of a linear structure."""
        return 0.0

    def release(self) -> None:  # noqa: B027
        """Let the next solution reuse the memory; after this only value, gradient and V may be used."""


class ColumnsSolution(InnerSolution):
    """A solution whose columns are independent of one another."""

    @abstractmethod
    def left_out(self) -> Floats:
        """Every observation predicted from the others of its column: exact for the square loss, and to the accuracy of
        one Newton step for other losses."""


class InnerSolver(ABC):
    """Solves the inner problem of one `Problem` at any U."""

    #: What is kept of the last solution for a warm start; None for a cold start.
    warm: Any = None
    #: What covariates add to the prediction of every observation; set before `solve`.
    offset: Floats | None = None
    #: Whether the accuracy of a solution depends on the gradient at the previous one.
    tightens: ClassVar[bool] = False
    #: Whether the next solutions may be in single precision; set by the outer solver, if it `gains`.
    single: bool = False

    @abstractmethod
    def __init__(self, problem: Problem, n_threads: int) -> None: ...

    @staticmethod
    @abstractmethod
    def obstacle(problem: Problem) -> str | None:
        """Why this solver cannot solve the problem; None if it can."""

    @abstractmethod
    def solve(self, U: Floats) -> InnerSolution: ...

    def gains(self, width: int) -> bool:
        """Whether solutions at points of `width` columns are noticeably faster in single precision."""
        return False

    def gains_in_derivatives(self, width: int) -> bool:
        """The same for the derivatives of solutions."""
        return self.gains(width)

    def begin_at(self, U: Floats, V: Floats) -> None:  # noqa: B027
        """Warm-start the next solution from V, if the solver supports that."""

    def free(self) -> None:  # noqa: B027
        """Free the memory that is kept for later solutions."""
