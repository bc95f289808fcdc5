"""Curvature that the quadratic model of a trust region misses, learned from rejected steps.

Near a kink, or near a bound that is not active yet, the Hessian does not tell what comes: a step crosses the kink, and
behind it the objective is stiff. In rows of U with many observations this averages out. In a row with few of them it
does not, so a handful of rows of thousands would keep the radius tiny for all.

The gradients at both ends of a rejected step show which rows these are. With d = change of the gradient − H η, row i
gets the curvature d_i d_iᵀ / ⟨d_i, η_i⟩, which is that of a kink that was crossed. Such terms have rank one in every
row, so the preconditioner with them is exact and costs little (Sherman and Morrison). They fade as steps are accepted.
"""

from __future__ import annotations

import numpy as np

from rslm.runtime.types import Floats
from rslm.solvers.point import Point

SHARE = 1e-4  # least part of what all rows have missed for which a row gets a term
ALIGNED = 0.1  # least cosine between the missed change of a row's gradient and its step
MOST_TERMS = 5
FADING = 0.5  # factor of all terms after an accepted step, behind which the Hessian includes the kinks it has crossed


class MissedCurvature:
    """The learned terms, w wᵀ in every row, which are added to the Hessian."""

    def __init__(self, terms: Floats | None = None) -> None:
        self.terms = terms  #: w of every term, (number of terms, *shape of the point); None if there are none

    def model(self, point: Point) -> Point | StiffPoint:
        """The point as the model shall see it."""
        return point if self.terms is None else StiffPoint(point, self.terms)

    def learn(self, point: Point, trial: Point, eta: Floats, h_eta: Floats) -> bool:
        """Learn from a step η that was rejected, where the model expected H η; returns whether that was possible."""
        if not (np.isfinite(trial.value) and np.isfinite(trial.gradient).all()):
            return False
        missed = point.tangent.project(trial.gradient) - point.gradient - h_eta
        along = by_row(missed, eta)
        size = np.sqrt(by_row(missed, missed) * by_row(eta, eta))
        stiff = ((along > ALIGNED * size) & (along >= SHARE * along[along > 0].sum()))[:, 0]
        if not stiff.any():
            return False
        term = np.zeros_like(missed)
        term[stiff] = missed[stiff] / np.sqrt(along[stiff])
        known = () if self.terms is None else self.terms[1 - MOST_TERMS :]
        self.terms = np.array([*known, term])
        return True

    def fade(self) -> None:
        """Trust the Hessian again, after a step that was accepted."""
        if self.terms is not None:
            self.terms = np.sqrt(FADING) * self.terms


class StiffPoint:
    """A point with terms w wᵀ in every row added to its Hessian and to its preconditioner's B."""

    def __init__(self, point: Point, terms: Floats) -> None:
        self.x, self.gradient, self._point, self._terms = point.x, point.gradient, point, terms
        self._solved: list[tuple[Floats, Floats]] = []  # w, and B⁻¹w / (1 + wᵀB⁻¹w) with the terms before it
        for w in terms:
            z = self._solve(w)
            self._solved.append((w, z / (1.0 + by_row(w, z))))

    def hessian(self, xi: Floats) -> Floats:
        more = np.sum([w * by_row(w, xi) for w in self._terms], axis=0)
        return self._point.hessian(xi) + self._point.tangent.project(more)

    def precondition(self, eta: Floats) -> Floats:
        return self._point.tangent.project(self._solve(eta))

    def _solve(self, eta: Floats) -> Floats:
        x = self._point.evaluation.preconditioner(eta)
        for w, z in self._solved:
            x = x - z * by_row(w, x)
        return x


def by_row(a: Floats, b: Floats) -> Floats:
    """The scalar products of the rows, as a column."""
    return np.asarray(np.einsum("ij,ij->i", a, b)[:, None])
