"""Steps on the spectrahedron from batches of columns that are not stored.

Batch k adds g_k(U) to the objective. Earlier batches are represented by the curvature at the points where they were
used, and by a gradient of zero, because their steps have removed it. The step is a Newton step for all columns so far,

    U ← R(−B⁻¹ grad g_k(U)),     B_i = A_i + w I,     A_i ← γ_k A_i + (C/p_i) Σ_t D_it v_t v_tᵀ,   w ← γ_k w + ‖UᵀS_k‖²

row by row, with the projection onto the tangent space and the retraction R of the manifold. B grows with the number of
columns, so steps become shorter as 1/k and there is no learning rate to choose; γ_k = 1 − 1/(2√k) reduces the weight of
curvature from points far away. The memory is d r² numbers, for any number of columns.

With a location, row effects are one more coordinate of every row, whose ridge counts once, not with every batch. The
mean moves all rows, so that its system is coupled to those of all rows; it is eliminated. Column effects belong to the
columns of a batch.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rslm.evaluation.objective import Evaluation
from rslm.kernels import Factors
from rslm.location import Effects
from rslm.runtime.types import Floats
from rslm.solvers.manifold import Tangent

FORGETTING = 0.5
UNDETERMINED = 1e-12  # curvature by the mean, with row effects eliminated, relative to that without


class StochasticSteps:
    """U and effects, and the curvature of the batches that they were learned from.

    Parameters
    ----------
    U : array of shape (d, r)
    effects : Effects, optional
        If the problems have a location: mean and row effects at the start. Column effects and covariates are not used.
    """

    def __init__(self, U: Floats, effects: Effects | None = None) -> None:
        self.U, self.effects = U, effects
        self.batches = 0
        (d, rank), tail = U.shape, 0 if effects is None else 1
        self._curvature: Floats = np.zeros((d, rank + tail, rank + tail))
        self._shift = 0.0

    def state(self) -> tuple[Floats, Floats, float, int]:
        """U, one block of curvature per row, a scalar added to every diagonal, and the number of batches.

        The blocks are r × r, or, with effects, (r + 1) × (r + 1).
        """
        return self.U, self._curvature, self._shift, self.batches

    @classmethod
    def of_state(
        cls, U: Floats, curvature: Floats, shift: float, batches: int, effects: Effects | None = None
    ) -> StochasticSteps:
        """Steps that continue from a stored state, with the `effects` stored with it, if there are any."""
        steps = cls(U, effects)
        if curvature.shape != steps._curvature.shape:
            raise ValueError(f"curvature must have shape {steps._curvature.shape}; got {curvature.shape}")
        steps._curvature, steps._shift, steps.batches = curvature, shift, batches
        return steps

    def step(self, evaluation: Evaluation) -> None:
        """Learn from a batch of columns, evaluated at U, or at Objective.point(U, effects)."""
        kept = 1.0 - FORGETTING / math.sqrt(self.batches + 1)
        curvature, shift = evaluation.row_curvature()
        curvature, shift = kept * self._curvature + curvature, kept * self._shift + shift
        tangent, rank = Tangent(self.U), self.U.shape[1]
        B = curvature.copy()
        B[:, range(rank), range(rank)] += max(shift, np.finfo(float).tiny)
        effects = self.effects
        if effects is None:
            gradient = tangent.gradient(evaluation.gradient)
            step = Factors.of(B, 1).solve(gradient, 1)  # B may be numerically singular
        else:
            step, effects = self._with_effects(evaluation, tangent, B, curvature[:, :, -1], effects)
        U = tangent.retract(-tangent.project(step))
        # In one statement, so that an interrupt leaves the state before or after the step.
        self.U, self.effects, self._curvature, self._shift, self.batches = (
            U,
            effects,
            curvature,
            shift,
            self.batches + 1,
        )

    def _with_effects(
        self, evaluation: Evaluation, tangent: Tangent, B: Floats, coupling: Floats, effects: Effects
    ) -> tuple[Floats, Effects]:
        """The step of U, before it is projected, and the new effects.

        B has one block per row, without the ridge of its effect; a row is coupled to the mean by `coupling`, because
        moving the mean has the same effect on it as moving its own effect.
        """
        location = evaluation.location
        assert location is not None
        by_U, by_rows, by_mean = evaluation.gradient_parts()
        gradient, coupling = np.zeros(coupling.shape), coupling.copy()
        gradient[:, :-1] = tangent.gradient(by_U)
        alone = float(coupling[:, -1].sum())
        if location.rows is None:
            B[:, -1, :] = B[:, :, -1] = coupling[:, -1] = 0.0
            B[:, -1, -1] = 1.0
        else:
            B[:, -1, -1] += max(location.rows, np.finfo(float).tiny)
            # After the first step, effects are near the optimum of all earlier batches with the penalty, where the
            # gradients of both cancel.
            gradient[:, -1] = by_rows - (location.rows * effects.rows if self.batches else 0.0)
        factors = Factors.of(B, 1)
        step, mean = factors.solve(gradient, 1), 0.0
        if location.mean:
            along = factors.solve(coupling, 1)
            curvature = alone - float(np.vdot(coupling, along))
            if curvature > UNDETERMINED * alone:
                mean = (by_mean - float(np.vdot(coupling, step))) / curvature
                step = step - mean * along
        moved = replace(effects, mean=effects.mean - mean, rows=effects.rows - step[:, -1])
        return np.ascontiguousarray(step[:, :-1]), moved
