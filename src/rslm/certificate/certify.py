"""How far the answer can be from the global optimum of the convex problem, seen from two sides.

    primal  C·L(W) + ½‖W‖_*²            at the learned W: at least the optimum
    dual    −C Σ ℓ*(−αz/C) + α Σ (lower a⁺ − upper a⁻) − ½α²σ₁(S)²
                                         at the dual variables z and the multipliers a of the bounds, if there are any,
                                         both scaled by the best α: at most the optimum
    gap     primal − dual

The convex problem has no limit on the rank. Where the limit binds, the gap says what it costs at most, not that the
solver has failed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.optimize import minimize_scalar

from rslm.evaluation.dual import DualSums, largest_singular_value_squared
from rslm.evaluation.objective import Evaluation
from rslm.linalg.low_rank import singular_values
from rslm.linalg.spectrum import largest_singular_value
from rslm.problem import Problem
from rslm.runtime.types import Floats

IMPOSSIBLE = 1e-6  # so far the dual value cannot be above the primal one, relative to it, by rounding
SAYS_NOTHING = 0.995  # part of the objective from which on a gap rules out nothing: it would be shown as 100 %


@dataclass(frozen=True)
class Certificate:
    """Bounds of the optimal value of the convex problem."""

    primal: float  #: objective at the learned W
    dual: float  #: no W has a smaller objective
    sigma_max: float  #: σ₁(S) with the residual of its computation added, so as not to be too small
    scaling: float  #: α, by which the dual variables were scaled
    method: str  #: how σ₁ was obtained
    rank: int  #: the limit on the rank
    stationary: bool  #: whether the solver found a stationary point at that rank
    tol: float  #: the relative gap up to which the answer counts as a global optimum
    gap: float  #: primal − dual: the objective is above the optimum by at most this
    relative_gap: float  #: gap / |dual|
    rounding: float = 0.0  #: δ by which the kinks of the loss were rounded to solve it
    softness: float = 0.0  #: ε by which the bounds of W were softened to solve it; primal and dual know neither
    smoothing: float = 0.0  #: δ by which a linear structure was smoothed to solve it; they do not know it either

    def scaled(self, scale: float) -> Certificate:
        """The certificate for data that are `scale` times as large; the relative gap is free of scale."""
        if scale == 1.0:
            return self
        return replace(
            self,
            primal=self.primal * scale * scale,  # not by its square, which may be beyond all numbers
            dual=self.dual * scale * scale,
            gap=self.gap * scale * scale,
            sigma_max=self.sigma_max * scale,
        )

    def shifted(self, constant: float) -> Certificate:
        """The certificate for an objective that is larger by a constant."""
        primal, dual = self.primal + constant, self.dual + constant
        return replace(self, primal=primal, dual=dual, relative_gap=_relative(self.gap, dual))

    @property
    def verdict(self) -> str:
        """What the numbers mean, in a sentence."""
        if self.relative_gap <= self.tol:
            return f"Global optimum of the convex problem, to a relative gap of {self.relative_gap:.1e}."
        if self.stationary:
            also = ["the limit on the rank"]
            also += ["the rounding of the loss"] if self.rounding > 0 else []
            also += ["the softness of the bounds"] if self.softness > 0 else []
            also += ["the smoothing of the structure"] if self.smoothing > 0 else []
            limits = f"{also[0]} costs" if len(also) == 1 else f"{', '.join(also[:-1])} and {also[-1]} together cost"
            return (
                f"Stationary at rank {self.rank}; {limits} at most {self.gap:.3g} (relative gap "
                f"{self.relative_gap:.2g}) against the convex problem without {'it' if len(also) == 1 else 'them'}."
            )
        if self.gap == math.inf:
            return f"Not converged; how far above the optimum of the convex problem is {self.method}."
        return (
            f"Not converged: above the optimum of the convex problem by at most {self.gap:.3g} "
            f"(relative gap {self.relative_gap:.2g})."
        )

    @property
    def meaning(self) -> str:
        """What the verdict means to somebody who only wants to use the answer."""
        objective = "objective (misfit and size of the matrix together, weighed by C)"
        elsewhere = "only data that were held out tell how well it predicts."
        if self.relative_gap <= self.tol:
            return (
                f"Nothing better exists for this C: no matrix, of whatever rank, has a noticeably lower {objective}. "
                f"That is about the data that were given; {elsewhere}"
            )
        if not math.isfinite(self.gap):
            return "How far this answer is from the best one is not known: no bound could be computed."
        share = self.gap / self.primal if self.primal > 0 else 1.0
        most = f"by at most {100 * share:.2g} %" if share < SAYS_NOTHING else "and the bound cannot say by how much"
        if self.stationary:
            return (
                "No small change makes this answer better. Another matrix, most often one of higher rank, may have a "
                f"lower {objective}, {most}. That need not predict better: {elsewhere}"
            )
        return (
            f"The solver ended before it had found a point that no small change makes better. The {objective} may "
            f"still become lower, {most}: with more iterations or more time, or from another start."
        )

    def __str__(self) -> str:
        return (
            f"{self.verdict}\n"
            f"primal {self.primal:.10g}, dual {self.dual:.10g}, gap {self.gap:.3g}\n"
            f"σ₁ = {self.sigma_max:.10g} ({self.method}), dual variables scaled by {self.scaling:.6g}"
            + (f"\nsolved with the kinks of the loss rounded by {self.rounding:.3g}" if self.rounding > 0 else "")
            + (f"\nsolved with bounds softened by {self.softness:.3g}; W keeps them" if self.softness > 0 else "")
            + (f"\nsolved with the structure smoothed by {self.smoothing:.3g}; W has it" if self.smoothing > 0 else "")
        )


class Kept(Protocol):
    """A W that keeps the bounds."""

    @property
    def U(self) -> Floats: ...

    @property
    def V(self) -> Floats: ...

    def loss(self, problem: Problem) -> float: ...


def certify(
    problem: Problem,
    evaluation: Evaluation,
    tol: float,
    stationary: bool,
    kept: Kept | None = None,
) -> Certificate:
    """Bound the optimum from below by the dual variables of an evaluation, from above by its W.

    Where the bounds of the evaluation are soft, `kept` is the one whose W is within them.
    """
    kept = evaluation if kept is None else kept
    if not math.isfinite(evaluation.value):
        found = no_certificate(problem, evaluation, tol, "the objective is not a finite number")
        return found if kept is evaluation else replace(found, primal=_primal(problem, kept))
    duals = evaluation.duals(problem)
    if (smoothed := evaluation.smoothed) is None:
        square, method = largest_singular_value_squared(duals, evaluation.U)
        primal = _primal(problem, kept)
    else:
        root, method = largest_singular_value(smoothed.dual_times, smoothed.dual_transposed_times, evaluation.U)
        square = (root + smoothed.infeasibility()) ** 2
        primal = problem.C * evaluation.loss(problem) + smoothed.trace_norm_term()
    support = duals.support() if smoothed is None else smoothed.support()
    dual, scaling = _best_dual(duals, square + duals.quadratic(), support)
    if not dual <= primal + IMPOSSIBLE * abs(primal):
        return replace(
            no_certificate(problem, evaluation, tol, f"the conjugate of {problem.loss!r} contradicts its value"),
            primal=primal,
        )
    dual = min(dual, primal)  # no more than a rounding error above it
    gap = primal - dual
    return Certificate(
        primal=primal,
        dual=dual,
        sigma_max=math.sqrt(square),
        scaling=scaling,
        method=method,
        rank=evaluation.U.shape[1],
        stationary=stationary,
        tol=tol,
        gap=gap,
        relative_gap=_relative(gap, dual),
    )


def _relative(gap: float, dual: float) -> float:
    return gap / abs(dual) if dual != 0 else (0.0 if gap == 0.0 else math.inf)


def no_certificate(problem: Problem, evaluation: Evaluation, tol: float, why: str) -> Certificate:
    """What is known where nothing was computed: no W has a smaller loss than the best prediction of every entry."""
    return bare_certificate(evaluation.value, evaluation.least_loss(problem), evaluation.U.shape[1], tol, why)


def bare_certificate(primal: float, least: float, rank: int, tol: float, why: str) -> Certificate:
    """Of a W with this objective, where nothing is known but the least loss."""
    inf = math.inf
    return Certificate(primal, least, inf, 0.0, f"not computed: {why}", rank, False, tol, inf, inf)


def _primal(problem: Problem, evaluation: Kept) -> float:
    q = problem.column_weights
    trace_norm = nuclear_norm(evaluation.U, evaluation.V if q is None else evaluation.V * np.sqrt(q)[:, None])
    penalty = problem.penalty(evaluation.U, evaluation.V)
    return problem.C * evaluation.loss(problem) + 0.5 * trace_norm**2 + penalty


def nuclear_norm(U: Floats, V: Floats) -> float:
    """‖U Vᵀ‖_* without forming the product."""
    return float(singular_values(U, V).sum())


def _best_dual(duals: DualSums, square: float, support: float) -> tuple[float, float]:
    """The largest dual value along αz, and α. It is 1 at an exact optimum, less where the limit on the rank binds."""

    def dual(alpha: float) -> float:
        return duals.conjugate_part(alpha) + (alpha * support - 0.5 * alpha**2 * square if alpha > 0 else 0.0)

    most = 1.0 - 2.0 * duals.rounding()  # which must not take z out of the domain of the conjugate
    found = {alpha: dual(alpha) for alpha in (0.0, 0.5 * most, most)}
    # Of most losses the dual is a parabola in α. Its vertex is then the answer, and its value as foreseen.
    below, middle, above = found.values()
    slope, bend = (4.0 * middle - 3.0 * below - above) / most, (2.0 * (above + below) - 4.0 * middle) / most**2
    vertex = min(-0.5 * slope / bend, most) if bend < 0 < slope else 0.0
    found[vertex] = dual(vertex)
    foreseen = below + vertex * (slope + vertex * bend)
    if not abs(found[vertex] - foreseen) <= 1e-9 * abs(found[vertex]):
        best = minimize_scalar(lambda log: -dual(math.exp(log)), bounds=(-30.0, math.log(most)), method="bounded")
        found[math.exp(best.x)] = -float(best.fun)
    alpha = max(found, key=lambda a: found[a])
    return found[alpha], alpha
