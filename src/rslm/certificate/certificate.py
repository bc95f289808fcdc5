"""Bounds on the optimal value, and what they mean in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rslm.certificate.relaxation import Relaxations, amount_of
from rslm.certificate.shown import certificate_html

SAYS_NOTHING = 1.0  # relative gap above which the bound is far below what any matrix could reach
WHAT_TO_DO = "a smaller C or a larger rank makes it tighter"


@dataclass(frozen=True)
class Certificate:
    """Bounds on the optimal value of the convex problem."""

    primal: float  #: objective at the learned W
    dual: float  #: a lower bound on the objective of any W
    sigma_max: float  #: σ₁(S) plus the residual of its computation, so that it is not too small
    scaling: float  #: α, by which the dual variables were scaled
    method: str  #: how σ₁ was obtained
    rank: int  #: the limit on the rank
    stationary: bool  #: whether the solver found a stationary point at that rank
    tol: float  #: the relative gap up to which the answer counts as a global optimum
    gap: float  #: primal − dual: the objective is above the optimum by at most this
    relative_gap: float  #: gap / |dual|
    #: What was relaxed to find the answer. Primal and dual values are those of the problem without relaxations.
    relaxations: Relaxations = ()

    def relaxed(self, of: str) -> float:
        """By how much "loss", "bounds" or "structure" was relaxed; 0 if not at all."""
        return amount_of(self.relaxations, of)

    def scaled(self, scale: float) -> Certificate:
        """The certificate for data that are `scale` times as large; the relative gap does not depend on the scale."""
        if scale == 1.0:
            return self
        return replace(
            self,
            primal=self.primal * scale * scale,  # not by scale², which may overflow
            dual=self.dual * scale * scale,
            gap=self.gap * scale * scale,
            sigma_max=self.sigma_max * scale,
        )

    def shifted(self, constant: float) -> Certificate:
        """The certificate for an objective that is larger by a constant."""
        primal, dual = self.primal + constant, self.dual + constant
        return replace(self, primal=primal, dual=dual, relative_gap=relative(self.gap, dual))

    @property
    def verdict(self) -> str:
        """What the numbers mean, in a sentence."""
        if self.relative_gap <= self.tol:
            return f"Global optimum of the convex problem, to a relative gap of {self.relative_gap:.1e}."
        if self.gap == math.inf:
            ended = f"Stationary with a rank of at most {self.rank}" if self.stationary else "Not converged"
            return f"{ended}; the distance from the optimum of the convex problem is {self.method}."
        says_nothing = f"the bound says nothing here (relative gap {self.relative_gap:.2g}): {WHAT_TO_DO}."
        if self.stationary:
            answer = f"Stationary with a rank of at most {self.rank}: no small change within this limit improves it"
            if self.relative_gap > SAYS_NOTHING:
                return f"{answer}. Compared with matrices of any rank, {says_nothing}"
            also = ["the limit on the rank", *(relaxation.cost for relaxation in self.relaxations)]
            limits = f"{also[0]} costs" if len(also) == 1 else f"{', '.join(also[:-1])} and {also[-1]} together cost"
            return (
                f"{answer}. Compared with matrices of any rank, {limits} at most {self.gap:.3g} "
                f"(relative gap {self.relative_gap:.2g})."
            )
        if self.relative_gap > SAYS_NOTHING:
            return f"Not converged, and {says_nothing}"
        return (
            f"Not converged: above the optimum of the convex problem by at most {self.gap:.3g} "
            f"(relative gap {self.relative_gap:.2g})."
        )

    @property
    def meaning(self) -> str:
        """What the verdict means for the use of the answer."""
        objective = "objective (misfit and size of the matrix together, weighed by C)"
        elsewhere = "only held-out data show how well it predicts."
        if self.relative_gap <= self.tol:
            return (
                f"Nothing better exists for this C: no matrix of any rank has a noticeably lower {objective}. "
                f"This concerns the given data; {elsewhere}"
            )
        if not math.isfinite(self.gap):
            return "The distance of this answer from the best one is not known: no bound could be computed."
        known = self.relative_gap <= SAYS_NOTHING and self.primal > 0
        share = 100 * self.gap / self.primal if known else 100.0
        most = f"by at most {share:.2g} %" if known else f"and the bound cannot say by how much ({WHAT_TO_DO})"
        if self.stationary:
            return (
                f"No small change of a matrix of rank {self.rank} improves this answer. The bound compares it with "
                f"matrices of any rank: one of these may have a lower {objective}, {most}. It need not predict better: "
                f"{elsewhere}"
            )
        return (
            f"The solver ended before it found a point that no small change improves. The {objective} may "
            f"still become lower, {most}: with more iterations or more time, or from another start."
        )

    def __str__(self) -> str:
        return (
            f"{self.verdict}\n"
            f"primal {self.primal:.10g}, dual {self.dual:.10g}, gap {self.gap:.3g}\n"
            f"σ₁ = {self.sigma_max:.10g} ({self.method}), dual variables scaled by {self.scaling:.6g}"
            + "".join(f"\n{relaxation}" for relaxation in self.relaxations)
        )

    def _repr_html_(self) -> str:
        return certificate_html(self)


def relative(gap: float, dual: float) -> float:
    """gap / |dual|; 0 where both are 0."""
    return gap / abs(dual) if dual != 0 else (0.0 if gap == 0.0 else math.inf)
