"""What the objective asks of an inner solver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from rslm.problem import Problem
from rslm.runtime.types import Floats
from rslm.structures import Multipliers


class InnerSolution(Protocol):
    """The inner problem solved at one U, with all that its derivatives need."""

    value: float  #: g(U)
    gradient: Floats  #: ∇g(U) = −S V, Euclidean
    paid: float  #: the part of the value that W pays for going beyond soft bounds

    @property
    def V(self) -> Floats:
        """(T, r); the learned matrix is W = diag(1/√p) U Vᵀ."""

    def derivative(self, xi: Floats) -> Floats:
        """D∇g(U)[ξ]."""

    def preconditioner(self) -> Callable[[Floats], Floats]:
        """An approximate inverse of the Hessian, symmetric and positive definite, row by row."""

    def dual(self) -> Floats:
        """The dual variable z of every observation."""

    def multipliers(self) -> Multipliers | None:
        """The multipliers of the bounds; None where there are no bounds."""

    def release(self) -> None:
        """Give memory back for the next solution; after that only value, gradient and V may be used."""


class ColumnsSolution(InnerSolution, Protocol):
    """One where columns are independent of one another."""

    def left_out(self) -> Floats:
        """Every observation predicted from the others of its column: exactly so for the square loss, else to the
        accuracy of one Newton step."""


class SolutionElsewhere(InnerSolution, ABC):
    """One of a problem whose observations are kept by other processes: sums over them are asked for there.

    The problem that sums are asked for has the same observations; its loss and structure may be others.
    """

    @abstractmethod
    def loss(self, problem: Problem) -> float:
        """Σ ℓ(y, M W) with the loss of the problem."""

    @abstractmethod
    def least_loss(self, problem: Problem) -> float:
        """C Σ min_w ℓ(y, w)."""

    @abstractmethod
    def sample(self, problem: Problem, size: int) -> tuple[Floats, Floats]:
        """Targets of about so many observations, evenly spaced, and what W says of them."""

    @abstractmethod
    def duals(self, problem: Problem) -> Any:
        """The dual variables, by the sums over them that `rslm.evaluation.dual.DualSums` has."""

    @abstractmethod
    def within_bounds(self) -> tuple[Floats, InnerSolution] | None:
        """U and the solution nearby whose W keeps the bounds, where those of the problem are soft; else None."""

    @abstractmethod
    def intercepts(self) -> Floats | None:
        """Of tasks; None of others."""


class InnerSolver(Protocol):
    """Solves the inner problem of one `Problem` at any U."""

    warm: Any  #: what the solver remembers of its last solution, to start the next one from

    def __init__(self, problem: Problem, n_threads: int) -> None: ...

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        """Why this solver cannot solve the problem; None if it can."""

    def solve(self, U: Floats) -> InnerSolution: ...

    def free(self) -> None:
        """Give back the memory that is kept for solutions to come."""
