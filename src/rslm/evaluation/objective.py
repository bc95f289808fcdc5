"""g(U), its derivatives and its dual state, with one inner solve a point."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from rslm.evaluation.dual import Duals, DualSums, SmoothDuals, balanced, least_loss, sum_in_blocks
from rslm.inner.active_set import ActiveSolution
from rslm.inner.base import InnerSolution, SolutionElsewhere
from rslm.inner.choose import choose
from rslm.inner.generic import GenericSolution
from rslm.inner.ridge import RidgeSolution
from rslm.inner.smoothed_linear import SmoothedSolution
from rslm.inner.weighted import WeightedSolution
from rslm.problem import Problem
from rslm.runtime.interrupts import look
from rslm.runtime.threads import thread_count
from rslm.runtime.types import Floats
from rslm.structures import Multipliers, Smooth

ROUNDING = 1e3  # how far above a single rounding error that of a sum can be


class Evaluation:
    """The objective at one point U. Everything is Euclidean; the manifold is the solvers' business."""

    def __init__(self, U: Floats, solution: InnerSolution, objective: Objective) -> None:
        self.U = U
        self._solution = solution
        self._objective = objective
        self.value = math.inf if math.isnan(solution.value) else solution.value  #: g(U)
        self.gradient = solution.gradient  #: ∇g(U)
        self.paid = solution.paid  #: the part of the value that W pays for going beyond soft bounds
        self.noise = ROUNDING * np.finfo(float).eps * max(1e-300, abs(self.value))  #: rounding errors of the value
        if isinstance(solution, SmoothedSolution):
            self.noise += ROUNDING * solution.rounding_error()

    @property
    def V(self) -> Floats:
        """W = U Vᵀ, with the rows divided by √p where rows are weighted."""
        return self._solution.V

    def hessian_product(self, xi: Floats) -> Floats:
        """The directional derivative D∇g(U)[ξ]."""
        if xi.shape != self.U.shape:
            raise ValueError(f"the direction must have the shape of U, {self.U.shape}; got {xi.shape}")
        look()
        self._objective.hessian_products += 1
        return self._solution.derivative(xi)

    @cached_property
    def preconditioner(self) -> Callable[[Floats], Floats]:
        """η ↦ B⁻¹η with a row-wise approximation B of the Hessian."""
        return self._solution.preconditioner()

    def row_curvature(self, typical: float | None = None, bounds: bool = True) -> tuple[Floats, float]:
        """The approximation B of the Hessian in two parts: a matrix of every row, and what all diagonals have more.

        `typical` is the error that is typical of all observations, where these are but a part of them, and `bounds`
        says whether those that push at W have a part in B.
        """
        solution = self._solution
        if isinstance(solution, RidgeSolution):
            return solution.row_curvature()
        if isinstance(solution, WeightedSolution):
            return solution.row_curvature(typical)
        if isinstance(solution, ActiveSolution):
            return solution.row_curvature(bounds)
        raise TypeError("only entries have a curvature row by row")

    def dual(self) -> Floats:
        """The dual variable z of every observation."""
        return self._solution.dual()

    def multipliers(self) -> Multipliers | None:
        """The multipliers of the bounds; None where there are no bounds."""
        return self._solution.multipliers()

    # ---- sums over the observations; the loss and the structure are those of a problem that has the same ones --------

    def loss(self, problem: Problem) -> float:
        """Σ ℓ(y, M W)."""
        if isinstance(self._solution, SolutionElsewhere):
            return self._solution.loss(problem)
        y, w = problem.data.values, self.predictions(problem)
        return sum_in_blocks(lambda at: problem.loss.value(y[at].astype(np.float64), w[at]), len(y))

    def least_loss(self, problem: Problem) -> float:
        """C Σ min_w ℓ(y, w)."""
        if isinstance(self._solution, SolutionElsewhere):
            return self._solution.least_loss(problem)
        return least_loss(problem)

    def sample(self, problem: Problem, size: int) -> tuple[Floats, Floats]:
        """Targets of about so many observations, evenly spaced, and what W says of them."""
        if isinstance(self._solution, SolutionElsewhere):
            return self._solution.sample(problem, size)
        w = self.predictions(problem)
        return problem.data.sample(size), w[:: len(w) // size + 1]

    def predictions(self, problem: Problem) -> Floats:
        if self.smoothed is not None:
            return self.smoothed.predictions
        return problem.predict(self.U, self.V, self._objective.n_threads, self.intercepts)

    def duals(self, problem: Problem) -> DualSums:
        """The dual variables, for the sums over them."""
        if isinstance(self._solution, SolutionElsewhere):
            duals: DualSums = self._solution.duals(problem)
            return duals
        z = self.dual() if self.intercepts is None else balanced(problem, self.dual())
        if isinstance(problem.structure, Smooth):
            return SmoothDuals(problem, z, self._objective.n_threads, self.U * problem.row_scale, self.V)
        return Duals(problem, z, self._objective.n_threads, self.multipliers())

    def within_bounds(self) -> Evaluation:
        """One nearby whose W keeps the bounds, where those of the problem are soft; else this one itself.

        Its value is infinite if no W near keeps them.
        """
        if not isinstance(self._solution, ActiveSolution | SolutionElsewhere | GenericSolution):
            return self
        kept = self._solution.within_bounds()
        return self if kept is None else Evaluation(kept[0], kept[1], self._objective)

    @cached_property
    def intercepts(self) -> Floats | None:
        """Of tasks; None of others."""
        of_solution: Callable[[], Floats | None] | None = getattr(self._solution, "intercepts", None)
        return None if of_solution is None else of_solution()

    @property
    def smoothed(self) -> SmoothedSolution | None:
        """The inner solution of a problem with a smoothed linear structure; None of others."""
        return self._solution if isinstance(self._solution, SmoothedSolution) else None

    def release(self) -> None:
        """Hand the memory of a point that is done with to the next one; value, gradient and V stay valid."""
        self.__dict__.pop("preconditioner", None)
        self._solution.release()


class Objective:
    """Evaluates g at points U of shape (d, r).

    Parameters
    ----------
    problem : Problem
    n_threads : int, optional
        Threads of the kernels; None for all cores. It has no influence on the numbers.
    after : Objective, optional
        One of a similar problem: its last inner solution is where the first one here starts.
    """

    def __init__(self, problem: Problem, n_threads: int | None = None, after: Objective | None = None) -> None:
        self.problem = problem
        self.n_threads = thread_count(n_threads)
        self.evaluations = 0
        self.hessian_products = 0
        self._inner = choose(problem, self.n_threads)
        if after is not None and type(after._inner) is type(self._inner):
            self._inner.warm = after._inner.warm

    @property
    def remembers(self) -> bool:
        """Whether the next evaluation starts from the last one, so that its last digits depend on more than U."""
        return self._inner.warm is not None

    def forget(self) -> None:
        """Let the next evaluation depend on U alone."""
        self._inner.warm = None

    def free(self) -> None:
        """Give back the memory that is kept for points to come."""
        self._inner.free()

    def evaluate(self, U: Floats) -> Evaluation:
        """Solve the inner problem at U, of shape (d, r); U need not be of norm 1."""
        U = np.array(U, dtype=np.float64, order="C")  # a copy: the evaluation must not change when U does
        d = self.problem.shape[0]
        if U.ndim != 2 or U.shape[0] != d or U.shape[1] < 1:
            raise ValueError(f"U must have shape ({d}, r) with r ≥ 1; got {U.shape}")
        look()
        self.evaluations += 1
        return Evaluation(U, self._inner.solve(U), self)
