"""Steps on the spectrahedron from batches of columns that are not stored.

Batch k adds g_k(U) to the objective. Earlier batches are represented by the curvature at the points where they were
used, and by a gradient of zero, because their steps have removed it. The step is a Newton step for all columns so far,

    U ← R(−B⁻¹ grad g_k(U)),     B_i = A_i + w I,     A_i ← γ_k A_i + (C/p_i) Σ_t D_it v_t v_tᵀ,   w ← γ_k w + ‖UᵀS_k‖²

row by row, with the projection onto the tangent space and the retraction R of the manifold. B grows with the number of
columns, so steps become shorter as 1/k and there is no learning rate to choose; γ_k = 1 − 1/(2√k) reduces the weight of
curvature from points far away. The memory is d r² numbers, for any number of columns.
"""

from __future__ import annotations

import math

import numpy as np

from rslm.evaluation.objective import Evaluation
from rslm.kernels import Factors
from rslm.runtime.types import Floats
from rslm.solvers.manifold import Tangent

FORGETTING = 0.5


class StochasticSteps:
    """U, and the curvature of the batches that it was learned from."""

    def __init__(self, U: Floats) -> None:
        self.U = U
        self.batches = 0
        d, rank = U.shape
        self._curvature: Floats = np.zeros((d, rank, rank))
        self._shift = 0.0

    def state(self) -> tuple[Floats, Floats, float, int]:
        """U, one r×r block of curvature per row, a scalar added to every diagonal, and the number of batches."""
        return self.U, self._curvature, self._shift, self.batches

    @classmethod
    def of_state(cls, U: Floats, curvature: Floats, shift: float, batches: int) -> StochasticSteps:
        """Steps that continue from a stored state."""
        steps = cls(U)
        steps._curvature, steps._shift, steps.batches = curvature, shift, batches
        return steps

    def step(self, evaluation: Evaluation) -> None:
        """Learn from a batch of columns, evaluated at U."""
        kept = 1.0 - FORGETTING / math.sqrt(self.batches + 1)
        curvature, shift = evaluation.row_curvature()
        curvature, shift = kept * self._curvature + curvature, kept * self._shift + shift
        tangent = Tangent(self.U)
        B = curvature + max(shift, np.finfo(float).tiny) * np.eye(self.U.shape[1])
        gradient = tangent.gradient(evaluation.gradient)
        U = tangent.retract(-tangent.project(Factors.of(B, 1).solve(gradient, 1)))  # B may be numerically singular
        # In one statement, so that an interrupt leaves the state before or after the step.
        self.U, self._curvature, self._shift, self.batches = U, curvature, shift, self.batches + 1
