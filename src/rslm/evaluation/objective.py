"""g(U), its derivatives and its dual variables, with one inner solve per point."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from rslm.evaluation.data_term import DataTerm, Factored, term_of
from rslm.evaluation.dual import DualSums
from rslm.inner.base import InnerSolution
from rslm.inner.choose import choose
from rslm.linalg.low_rank import nuclear_norm
from rslm.location import Effects, Location
from rslm.location.packing import Packing
from rslm.problem import Problem
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.threads import thread_count
from rslm.runtime.types import Floats
from rslm.structures import Multipliers

ROUNDING = 1e3  # rounding error of a sum relative to that of one number, at most


class Evaluation:
    """The objective at one point U. Everything is Euclidean; the solvers add the geometry of the manifold."""

    def __init__(self, point: Floats, solution: InnerSolution, objective: Objective, warm: Any = None) -> None:
        self.point = point  #: U, or with a location the array of a `Packing`
        self.U = point if objective.packing is None else objective.packing.parts(point)[0]
        self.solution = solution
        self._objective = objective
        self._warm = warm  # what an evaluation nearby may start from
        self.value = math.inf if math.isnan(solution.value) else solution.value  #: g(U)
        self.gradient = solution.gradient  #: ∇g by the point
        self.single = objective.single  #: whether it is in single precision
        self.violation_cost = solution.violation_cost  #: the part of the value paid for violating soft bounds
        rounding = np.finfo(float).eps * max(1e-300, abs(self.value))
        self.noise = ROUNDING * (rounding + solution.noise)  #: rounding errors of the value

    @property
    def V(self) -> Floats:
        """W = U Vᵀ, with the rows divided by √p where rows are weighted."""
        return self.solution.V

    def hessian_product(self, xi: Floats) -> Floats:
        """The directional derivative D∇g(U)[ξ]."""
        if xi.shape != self.point.shape:
            raise ValueError(f"the direction must have the shape of the point, {self.point.shape}; got {xi.shape}")
        raise_if_stopped()
        self._objective.hessian_products += 1
        return self.solution.derivative(xi)

    @property
    def rough(self) -> bool:
        """Whether Hessian products may be in single precision, where that is faster."""
        return self.solution.rough

    @rough.setter
    def rough(self, value: bool) -> None:
        self.solution.rough = value and self._objective.inner.gains_in_derivatives(self.point.shape[1])

    @cached_property
    def preconditioner(self) -> Callable[[Floats], Floats]:
        """η ↦ B⁻¹η with a row-wise approximation B of the Hessian."""
        return self.solution.preconditioner()

    @property
    def location(self) -> Location | None:
        """The location of the problem; None where there is none."""
        return self._objective.problem.location

    def gradient_parts(self) -> tuple[Floats, Floats, float]:
        """With a location, the derivatives by U, row effects and mean."""
        assert self._objective.packing is not None
        return self._objective.packing.gradient_parts(self.gradient)[:3]

    @property
    def effects(self) -> Effects | None:
        """The values of the location; None where there is none."""
        return self.solution.effects

    def at(self, U: Floats) -> Floats:
        """This point with another U."""
        packing = self._objective.packing
        return U if packing is None else packing.with_U(self.point, U)

    @property
    def gradient_size(self) -> float:
        """What the Riemannian gradient is compared with, in units of the objective: ‖∇g‖ by U.

        The gradient by effects vanishes at a solution, and that by U may: with a location the objective counts too.
        """
        packing = self._objective.packing
        if packing is None:
            return float(np.linalg.norm(self.gradient))
        return max(float(np.linalg.norm(self.gradient[: len(self.U), :-1])), abs(self.value))

    def row_curvature(self, typical: float | None = None, bounds: bool = True) -> tuple[Floats, float]:
        """The approximation B of the Hessian, as `InnerSolution.row_curvature`.

        With a location, the last coordinate of every block is that of the row effect, whose ridge is not included.
        """
        return self.solution.row_curvature(typical, bounds)

    def dual(self) -> Floats:
        """The dual variable z of every observation."""
        return self.solution.dual()

    def multipliers(self) -> Multipliers | None:
        """The multipliers of the bounds; None where there are no bounds."""
        return self.solution.multipliers()

    @cached_property
    def intercepts(self) -> Floats | None:
        """The intercepts of the columns; None where there are none."""
        return self.solution.intercepts()

    # ---- sums over the observations; a problem with another loss or structure but the same observations may be given -

    def _term(self, problem: Problem) -> DataTerm:
        return term_of(problem, self._objective.n_threads)

    def least_loss(self, problem: Problem) -> float:
        """C Σ min_w ℓ(y, w)."""
        return self._term(problem).least_loss()

    def sample(self, problem: Problem, size: int) -> tuple[Floats, Floats]:
        """Targets of about `size` observations, evenly spaced, and their predictions."""
        return self._term(problem).sample(self, size)

    def duals(self, problem: Problem) -> DualSums:
        """Sums over the dual variables."""
        return self._term(problem).duals(self)

    def primal(self, problem: Problem) -> float:
        """The objective of W, or an upper bound on it where W is not U Vᵀ."""
        return primal(problem, self, self._term(problem).value(self), self.solution.trace_norm_term())

    def within_bounds(self) -> Evaluation:
        """An evaluation nearby whose W keeps the bounds, if the problem has soft bounds; otherwise this one.

        Its value is infinite if no such W was found.
        """
        kept = self.solution.within_bounds()
        return self if kept is None else Evaluation(kept[0], kept[1], self._objective)

    def release(self) -> None:
        """Let the next point reuse the memory of this one; value, gradient and V stay valid."""
        self.__dict__.pop("preconditioner", None)
        self._warm = None
        self.solution.release()

    def warm_start(self) -> None:
        """Let the next evaluation start from this one, not from the last one, which may be a step that was rejected."""
        if self._warm is not None:
            self._objective.inner.warm = self._warm


def primal(problem: Problem, W: Factored, of_data: float, trace_norm_term: float | None = None) -> float:
    """C·L(W), which is `of_data`, + ½‖W‖_*² + penalty, with the trace norm of U Vᵀ unless its term is known."""
    if trace_norm_term is None:
        q = problem.column_weights
        trace_norm_term = 0.5 * nuclear_norm(W.U, W.V if q is None else W.V * np.sqrt(q)[:, None]) ** 2
    of_effects = 0.0 if problem.location is None or W.effects is None else W.effects.cost(problem.location)
    return of_data + trace_norm_term + of_effects + problem.penalty(W.U, W.V)


def value_at(problem: Problem, w: Floats) -> float:
    """The objective of W = P(w) + W₀, with intercepts of 0, for a linear structure; W is formed."""
    linear, p, q = problem.structure.linear, problem.row_weights, problem.column_weights
    assert linear is not None
    W = linear.whole_matrix(w)
    predicted = w[problem.data.index_in(linear)] if problem.data.parameters is not None else problem.data.of_matrix(W)
    W = W if p is None else np.sqrt(p)[:, None] * W
    W = W if q is None else W * np.sqrt(q)
    losses = problem.loss.value(np.asarray(problem.data.values, dtype=np.float64), predicted)
    loss = float(np.sum(losses if problem.data.weights is None else losses * problem.data.weights))
    return problem.C * loss + 0.5 * float(np.linalg.norm(W, "nuc")) ** 2


class Objective:
    """Evaluates g at points U of shape (d, r).

    Parameters
    ----------
    problem : Problem
    n_threads : int, optional
        Threads of the kernels; None for all cores. The numbers do not depend on it.
    after : Objective, optional
        The objective of a similar problem, whose last inner solution is the warm start of the first one here.
    """

    def __init__(self, problem: Problem, n_threads: int | None = None, after: Objective | None = None) -> None:
        self.problem = problem
        self.n_threads = thread_count(n_threads)
        self.evaluations = 0
        self.hessian_products = 0
        self.packing = None if problem.location is None else Packing.of(problem)
        self.inner = choose(problem, self.n_threads)
        if after is not None and _kind(after.inner) == _kind(self.inner):
            self.inner.warm = after.inner.warm

    @property
    def warm_starts(self) -> bool:
        """Whether the next evaluation starts from the last one, so that its last digits depend on more than U."""
        return self.inner.warm is not None

    @property
    def tightens(self) -> bool:
        """Whether the accuracy of an evaluation depends on the previous one."""
        return self.inner.tightens

    @property
    def single(self) -> bool:
        """Whether the next evaluations are in single precision: right to about six digits, at half of the cost."""
        return self.inner.single

    @single.setter
    def single(self, value: bool) -> None:
        self.inner.single = value

    def gains(self, point: Floats) -> bool:
        """Whether evaluations at such points are noticeably faster in single precision."""
        return self.inner.gains(point.shape[1])

    def forget(self) -> None:
        """Let the next evaluation depend on U alone."""
        self.inner.warm = None

    def begin_at(self, U: Floats, V: Floats) -> None:
        """Warm-start the next evaluation from V."""
        self.inner.begin_at(U, V)

    def free(self) -> None:
        """Free the memory that is kept for later points."""
        self.inner.free()

    def guess(self, usual: float, effects: Effects | None = None) -> Callable[[Floats], Floats]:
        """X ↦ Y YᵀX for a first guess Y of W; `usual` is the median size of the targets.

        With a location, W is what the `effects` leave.
        """
        return term_of(self.problem, self.n_threads).guess(usual, effects)

    def point(self, U: Floats, effects: Effects | None = None) -> Floats:
        """The point of U and, if the problem has a location, of `effects`; None for no effects."""
        return U if self.packing is None else self.packing.packed(U, effects)

    def evaluate(self, U: Floats) -> Evaluation:
        """Solve the inner problem at U, of shape (d, r); U need not be of norm 1.

        With a location, give a `point`.
        """
        U = np.array(U, dtype=np.float64, order="C")  # a copy: the evaluation must not change when U does
        d = self.problem.shape[0] if self.packing is None else len(self.packing.scales)
        least = 1 if self.packing is None else 2
        if U.ndim != 2 or U.shape[0] != d or U.shape[1] < least:
            what = f"U must have shape ({d}, r) with r ≥ 1"
            if self.packing is not None:
                what = f"with a location, the point must have shape ({d}, r + 1): use Objective.point(U, effects)"
            raise ValueError(f"{what}; got {U.shape}")
        raise_if_stopped()
        self.evaluations += 1
        solution = self.inner.solve(U)
        return Evaluation(U, solution, self, self.inner.warm)


def _kind(inner: object) -> tuple[type, type]:
    """The class of an inner solver, and of the one within it where there is a location."""
    return type(inner), type(getattr(inner, "solver", None))
