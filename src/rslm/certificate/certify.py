"""Bounds the distance of the answer from the global optimum of the convex problem by a primal and a dual value.

    primal  C·L(W) + ½‖W‖_*²            at the learned W: at least the optimum
    dual    −C Σ ℓ*(−αz/C) + α Σ (lower a⁺ − upper a⁻) − ½α²σ₁(S)²
                                         at the dual variables z and the multipliers a of the bounds, if there are any,
                                         both scaled by the best α: at most the optimum
    gap     primal − dual

The convex problem has no limit on the rank. Where the limit is active, the gap bounds its cost; then an open gap does
not mean that the solver has failed.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from rslm.certificate.certificate import Certificate, relative
from rslm.evaluation.dual import DualSums, largest_singular_value_squared
from rslm.evaluation.objective import Evaluation
from rslm.problem import Problem

SAMPLE = 100_000  # observations from which rounding errors are estimated
IMPOSSIBLE = 1e-6  # rounding errors cannot lift the dual value above the primal one by more than this, relatively


def certify(
    problem: Problem, evaluation: Evaluation, tol: float, stationary: bool, primal: float | None = None
) -> Certificate:
    """Bound the optimum from below by the dual variables of an evaluation, and from above by the objective of its W.

    If another W is the answer, because this one violates the bounds, `primal` is the objective of the answer.
    """
    if not math.isfinite(evaluation.value):
        found = no_certificate(problem, evaluation, tol, "the objective is not a finite number")
        return found if primal is None else replace(found, primal=primal)
    primal = evaluation.primal(problem) if primal is None else primal
    duals = evaluation.duals(problem)
    square, method = largest_singular_value_squared(duals, evaluation.U)
    dual, scaling = _best_dual(duals, square + duals.quadratic())
    if not dual <= primal + IMPOSSIBLE * abs(primal) and not dual <= primal + _rounding(problem):
        why = f"the conjugate of {problem.loss!r} contradicts its value"
        return replace(no_certificate(problem, evaluation, tol, why), primal=primal)
    dual = min(dual, primal)  # it can be above only by a rounding error
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
        relative_gap=relative(gap, dual),
    )


def _rounding(problem: Problem) -> float:
    """Rounding errors of a sum over the observations: where the fit is exact, its value is nothing else."""
    if not problem.data.at_hand:
        return 0.0
    y = np.asarray(problem.data.sample(SAMPLE), dtype=np.float64)
    typical = float(np.mean(np.abs(problem.loss.value(y, np.zeros_like(y)))))
    return float(np.finfo(float).eps) * problem.C * len(problem.data) * typical


def no_certificate(problem: Problem, evaluation: Evaluation, tol: float, why: str) -> Certificate:
    """A certificate without a dual value: the lower bound is the loss of the best prediction of every entry."""
    return bare_certificate(evaluation.value, evaluation.least_loss(problem), evaluation.U.shape[1], tol, why)


def bare_certificate(primal: float, least: float, rank: int, tol: float, why: str) -> Certificate:
    """A certificate for a W with the objective `primal`, where only the `least` loss is known."""
    inf = math.inf
    return Certificate(primal, least, inf, 0.0, f"not computed: {why}", rank, False, tol, inf, inf)


def _best_dual(duals: DualSums, square: float) -> tuple[float, float]:
    """The largest dual value along αz, and α. It is 1 at an exact optimum, less if the limit on the rank is active."""
    support = duals.support()

    def dual(alpha: float) -> float:
        return duals.conjugate_part(alpha) + (alpha * support - 0.5 * alpha**2 * square if alpha > 0 else 0.0)

    most = 1.0 - 2.0 * duals.rounding()  # rounding must not take z out of the domain of the conjugate
    less = duals.rounding()
    while not math.isfinite(duals.conjugate_part(most)):  # corrections have moved z out of the domain
        less *= 4.0
        most = 1.0 - less
        if less >= 1.0:
            return duals.conjugate_part(0.0), 0.0
    found = {alpha: dual(alpha) for alpha in (0.0, 0.5 * most, most)}
    # For most losses the dual is a parabola in α. Then its vertex is the answer, with the predicted value.
    below, middle, above = found.values()
    slope, bend = (4.0 * middle - 3.0 * below - above) / most, (2.0 * (above + below) - 4.0 * middle) / most**2
    vertex = min(-0.5 * slope / bend, most) if bend < 0 < slope else 0.0
    found[vertex] = dual(vertex)
    predicted = below + vertex * (slope + vertex * bend)
    if not abs(found[vertex] - predicted) <= 1e-9 * abs(found[vertex]):
        best = minimize_scalar(lambda log: -dual(math.exp(log)), bounds=(-30.0, math.log(most)), method="bounded")
        found[math.exp(best.x)] = -float(best.fun)
    alpha = max(found, key=lambda a: found[a])
    return found[alpha], alpha
