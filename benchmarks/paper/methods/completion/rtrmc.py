"""RTRMC: minimise over column spaces ½‖P_Ω(W − Y)‖² + (λ²/2)‖W outside Ω‖², where W = U Vᵀ and V is the best one for U.

U is on the Grassmann manifold of the smaller side. V is one small regularised regression per column. A Riemannian trust
region with the exact Hessian minimises over U; the preconditioner is the inverse of the Hessian that the problem would
have if all entries were observed, ξ ↦ ξ VᵀV. All entries have the same confidence.

N. Boumal, P.-A. Absil, RTRMC: a Riemannian trust-region method for low-rank matrix completion, 2011; Low-rank matrix
completion via preconditioned optimization on the Grassmann manifold, 2015.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from paper.observed import Entries
from paper.record import Record
from paper.trust_region import minimise
from rslm.runtime.types import Floats

NAME = "RTRMC"
PROBLEM = "½‖P_Ω(W − Y)‖² + ½λ²‖W outside Ω‖², rank W = r"
GRID = (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-6)  # λ


def fit(data: Entries, rank: int, weight: float, record: Record) -> None:
    """Run the trust region with λ = `weight`, between 0 and 1."""
    wide = data.shape[0] <= data.shape[1]
    side = data if wide else data.transposed

    def follow(point: ColumnSpace) -> None:
        left, right = point.U, point.V
        record(left, right) if wide else record(right, left)

    minimise(ColumnSpace(side, weight, side.singular_vectors(rank)[0]), follow)


class ColumnSpace:
    """The span of an orthonormal U.

    ‖U v‖ = ‖v‖, so the penalty of column t outside Ω is ½λ²(‖v‖² − ‖X v‖²), with X the rows of U at its entries. With
    κ = 1 − λ² and y/κ for y, the objective is κ (½‖y/κ − X v‖² + ½ (λ²/κ)‖v‖²) and a constant: ridge regression.
    """

    def __init__(self, data: Entries, lam: float, U: Floats) -> None:
        self.data, self.lam, self.U = data, lam, U
        self.kappa = 1.0 - lam**2
        ridge = lam**2 / self.kappa
        self.solved = data.columns.evaluate(data.y / self.kappa, U, np.full(data.shape[1], ridge), data.threads)
        self.V = self.solved.V
        constant = 0.5 * float(data.y @ data.y) * (1.0 - 1.0 / self.kappa)
        self.value = 0.5 * self.kappa * (self.solved.squares + ridge * float(np.sum(self.V**2))) + constant

    def _projected(self, X: Floats) -> Floats:
        return X - self.U @ (self.U.T @ X)

    @cached_property
    def gradient(self) -> Floats:
        return self._projected(-self.kappa * self.solved.by_rows)

    @cached_property
    def _bend(self) -> Floats:
        return self.U.T @ (-self.kappa * self.solved.by_rows)

    def inner(self, a: Floats, b: Floats) -> float:
        return float(np.vdot(a, b))

    def hessian(self, eta: Floats) -> Floats:
        changed = self.data.columns.derivative(self.solved, self.U, eta, self.data.threads)
        return self._projected(self.kappa * changed - eta @ self._bend)

    @cached_property
    def _inverse(self) -> Floats:
        density = len(self.data.y) / np.prod(self.data.shape)
        return np.asarray(np.linalg.pinv(density * self.V.T @ self.V, hermitian=True))

    def precondition(self, eta: Floats) -> Floats:
        return self._projected(eta @ self._inverse)

    def retract(self, eta: Floats) -> ColumnSpace:
        P, _, Qt = np.linalg.svd(self.U + eta, full_matrices=False)
        return ColumnSpace(self.data, self.lam, P @ Qt)
