"""How far the answer can be from the global optimum of the convex problem, seen from two sides.

    primal  C·L(W) + ½‖W‖_*²            at the learned W: at least the optimum
    dual    −C Σ ℓ*(−αz/C) − ½α²σ₁(S)²   at the dual variables, scaled by the best α: at most the optimum
    gap     primal − dual

The convex problem has no limit on the rank. Where the limit binds, the gap says what it costs at most, not that the
solver has failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from rslm._typing import Floats
from rslm.objective import Evaluation
from rslm.problem import Problem
from rslm.spectrum import largest_singular_value_squared
from rslm.thin import singular_values

BLOCK = 1 << 20  # entries summed at a time, so that no temporary is as large as the data


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
    relative_gap: float  #: gap / dual

    def scaled(self, factor: float) -> Certificate:
        """The certificate for data whose squares are `factor` times as large; the relative gap is free of scale."""
        if factor == 1.0:
            return self
        return replace(
            self,
            primal=self.primal * factor,
            dual=self.dual * factor,
            gap=self.gap * factor,
            sigma_max=self.sigma_max * math.sqrt(factor),
        )

    @property
    def verdict(self) -> str:
        """What the numbers mean, in a sentence."""
        if self.relative_gap <= self.tol:
            return f"Global optimum of the convex problem, to a relative gap of {self.relative_gap:.1e}."
        if self.stationary:
            return (
                f"Stationary at rank {self.rank}; the limit on the rank costs at most {self.gap:.3g} "
                f"(relative gap {self.relative_gap:.2g}) against the convex problem without it."
            )
        return (
            f"Not converged: above the optimum of the convex problem by at most {self.gap:.3g} "
            f"(relative gap {self.relative_gap:.2g})."
        )

    def __str__(self) -> str:
        return (
            f"{self.verdict}\n"
            f"primal {self.primal:.10g}, dual {self.dual:.10g}, gap {self.gap:.3g}\n"
            f"σ₁ = {self.sigma_max:.10g} ({self.method}), dual variables scaled by {self.scaling:.6g}"
        )


def certify(problem: Problem, evaluation: Evaluation, tol: float, stationary: bool, n_threads: int) -> Certificate:
    """Bound the optimum from the point of an evaluation."""
    if not math.isfinite(evaluation.value):
        return no_certificate(evaluation, tol, "the objective is not a finite number")
    z = evaluation.dual()
    square, method = largest_singular_value_squared(problem, z, evaluation.U, n_threads)
    dual, scaling = _best_dual(problem, z, square)
    primal = _primal(problem, evaluation, n_threads)
    gap = max(primal - dual, 0.0)
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
        relative_gap=gap / dual if dual > 0 else (0.0 if gap == 0.0 else math.inf),
    )


def no_certificate(evaluation: Evaluation, tol: float, why: str) -> Certificate:
    """What is known where nothing was computed: the optimum is not negative."""
    rank, inf = evaluation.U.shape[1], math.inf
    return Certificate(evaluation.value, 0.0, inf, 0.0, f"not computed: {why}", rank, False, tol, inf, inf)


def _primal(problem: Problem, evaluation: Evaluation, n_threads: int) -> float:
    p, q = problem.row_weights, problem.column_weights
    U, V, y = evaluation.U, evaluation.V, problem.data.values
    w = problem.data.columns.predict(U if p is None else U / np.sqrt(p)[:, None], V, n_threads)
    loss = _sum_in_blocks(lambda at: problem.loss.value(y[at].astype(np.float64), w[at]), len(y))
    trace_norm = nuclear_norm(U, V if q is None else V * np.sqrt(q)[:, None])
    return problem.C * loss + 0.5 * trace_norm**2


def nuclear_norm(U: Floats, V: Floats) -> float:
    """‖U Vᵀ‖_* without forming the product."""
    return float(singular_values(U, V).sum())


def _best_dual(problem: Problem, z: Floats, square: float) -> tuple[float, float]:
    """The largest dual value along αz, and α. It is 1 at an exact optimum, less where the limit on the rank binds."""
    y, C = problem.data.values, problem.C
    # −C Σ ℓ*(y, −αz/C) of a quadratic loss is α⟨y, z⟩ − α²‖z‖²/4C.
    linear = _sum_in_blocks(lambda at: y[at].astype(np.float64) * z[at], len(y))
    curvature = _sum_in_blocks(lambda at: z[at].astype(np.float64) ** 2, len(y)) / (2.0 * C) + square
    alpha = min(linear / curvature, 1.0) if linear > 0 and curvature > 0 else 0.0
    return alpha * linear - 0.5 * alpha**2 * curvature if alpha > 0 else 0.0, alpha


def _sum_in_blocks(term: Callable[[slice], Floats], n: int) -> float:
    return math.fsum(float(term(slice(k, k + BLOCK)).sum(dtype=np.float64)) for k in range(0, n, BLOCK))
