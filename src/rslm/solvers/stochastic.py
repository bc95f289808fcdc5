"""Steps on the spectrahedron from columns that come in batches and are not kept.

Batch k adds g_k(U) to the objective. The batches before it are stood in for by their curvature where they were met, and
by a gradient of zero, which the steps upon them have left. So the step is Newton's for all columns so far,

    U ← R(−B⁻¹ grad g_k(U)),     B_i = A_i + w I,     A_i ← γ_k A_i + (C/p_i) Σ_t D_it v_t v_tᵀ,   w ← γ_k w + ‖UᵀS_k‖²

row by row, with the projection onto the tangent space and the retraction R of the manifold. B grows with the number of
columns, so steps become shorter as 1/k without a rate to be chosen; γ_k = 1 − 1/(2√k) forgets what was measured at
points far away. It takes d r² numbers, however many columns have been seen.
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
    """U, and what is known of the columns that it was learned from."""

    def __init__(self, U: Floats) -> None:
        self.U = U
        self.batches = 0
        d, rank = U.shape
        self._curvature: Floats = np.zeros((d, rank, rank))
        self._shift = 0.0

    def state(self) -> tuple[Floats, Floats, float, int]:
        """U, its curvature, what all diagonals have more, and how many batches there were."""
        return self.U, self._curvature, self._shift, self.batches

    @classmethod
    def of_state(cls, U: Floats, curvature: Floats, shift: float, batches: int) -> StochasticSteps:
        """One that goes on as the one would whose state this is."""
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
        U = tangent.retract(-tangent.project(Factors.of(B, 1).solve(gradient, 1)))  # B may be singular but for rounding
        # All at once, so that an interrupt finds the state before or after the step.
        self.U, self._curvature, self._shift, self.batches = U, curvature, shift, self.batches + 1
