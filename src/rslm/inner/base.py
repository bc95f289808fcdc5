"""What the objective asks of an inner solver and of its solutions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from rslm.linalg.products import Products
from rslm.problem import Problem
from rslm.runtime.types import Floats
from rslm.structures import Multipliers


class StructuredDual(Products, Protocol):
    """The dual matrix S of a problem with linear structure."""

    def support(self, z: Floats) -> float:
        """⟨S − M*z, W₀⟩, which is added to the dual value where the structure is affine."""

    def infeasibility(self, z: Floats) -> float:
        """An upper bound of the norm of what has to be added to S to make P*(S) equal to P*(M*z)."""


class InnerSolution(ABC):
    """The inner problem solved at one U, with all that its derivatives need."""

    value: float  #: g(U)
    V: Floats  #: (T, r); the learned matrix is W = diag(1/√p) U Vᵀ
    gradient: Floats  #: ∇g(U) = −S V, Euclidean
    violation_cost: float = 0.0  #: the part of the value that W pays for violating soft bounds
    noise: float = 0.0  #: rounding error of the value, where it is larger than that of a sum
    predictions: Floats | None = None  #: M W, where it is not that of U Vᵀ
    parameters: Floats | None = None  #: w of a linear structure
    structured_dual: StructuredDual | None = None  #: S of a linear structure; None where S = M*z + multipliers

    @abstractmethod
    def derivative(self, xi: Floats) -> Floats:
        """D∇g(U)[ξ]."""

    @abstractmethod
    def preconditioner(self) -> Callable[[Floats], Floats]:
        """An approximate inverse of the Hessian, symmetric and positive definite, row by row."""

    @abstractmethod
    def dual(self) -> Floats:
        """The dual variable z of every observation."""

    def row_curvature(self, typical: float | None = None, bounds: bool = True) -> tuple[Floats, float]:
        """One r×r block of the Hessian per row, and a scalar added to every diagonal; only for entries.

        `typical` is the typical error of all observations, where these are only a part of them; `bounds` says whether
        active bounds count.
        """
        raise TypeError("only entries have a curvature row by row")

    def multipliers(self) -> Multipliers | None:
        """The multipliers of the bounds; None where there are no bounds."""
        return None

    def intercepts(self) -> Floats | None:
        """The intercepts of the columns; None where there are none."""
        return None

    def within_bounds(self) -> tuple[Floats, InnerSolution] | None:
        """U and a solution nearby whose W keeps the bounds, where those of the problem are soft; None where not.

        Its value is infinite if no W nearby keeps them.
        """
        return None

    def trace_norm_term(self) -> float | None:
        """½‖W‖_*² from above, where W is not U Vᵀ; else None."""
        return None

    def cost_of_smoothing(self) -> float:
        """How far the value can be from the one without smoothing of a linear structure."""
        return 0.0

    def release(self) -> None:  # noqa: B027
        """Give memory back for the next solution; after that only value, gradient and V may be used."""


class ColumnsSolution(InnerSolution):
    """A solution whose columns are independent of one another."""

    @abstractmethod
    def left_out(self) -> Floats:
        """Every observation predicted from the others of its column: exactly so for the square loss, else to the
        accuracy of one Newton step."""


class InnerSolver(ABC):
    """Solves the inner problem of one `Problem` at any U."""

    #: What the solver keeps of its last solution, to start the next one from; None where it starts afresh.
    warm: Any = None
    #: Whether the accuracy of a solution depends on the gradient at the one before.
    tightens: ClassVar[bool] = False

    @abstractmethod
    def __init__(self, problem: Problem, n_threads: int) -> None: ...

    @staticmethod
    @abstractmethod
    def obstacle(problem: Problem) -> str | None:
        """Why this solver cannot solve the problem; None if it can."""

    @abstractmethod
    def solve(self, U: Floats) -> InnerSolution: ...

    def begin_at(self, U: Floats, V: Floats) -> None:  # noqa: B027
        """Start the next solution from V, where the solver has a use for it."""

    def free(self) -> None:  # noqa: B027
        """Give back the memory that is kept for solutions to come."""
