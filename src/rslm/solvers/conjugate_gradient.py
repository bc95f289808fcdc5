"""Riemannian nonlinear conjugate gradients: Hestenes–Stiefel+, preconditioned, with an Armijo line search."""

from __future__ import annotations

import math
from typing import Any

from rslm.runtime.types import Floats
from rslm.solvers.manifold import inner
from rslm.solvers.point import Evaluate, Point

ARMIJO = 1e-4
MOST_TRIALS = 25


class ConjugateGradient:
    """Takes conjugate-gradient steps; remembers the last direction and step length."""

    def __init__(self, rough: bool = False, kinks: bool = False) -> None:  # neither makes a difference here
        self.last: tuple[Floats, Floats] | None = None  # step and gradient, transported to the present point
        self.length = 1.0  # natural for a preconditioned direction
        self.lowest: Point | None = None  # a point where no step descends, not even along the negative gradient

    def state(self) -> dict[str, Any]:
        """The state to store in a checkpoint, as numbers and arrays."""
        step, gradient = (None, None) if self.last is None else self.last
        return {"length": self.length, "step": step, "gradient": gradient}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a stored `state`."""
        self.length = state["length"]
        self.last = None if state["step"] is None else (state["step"], state["gradient"])

    def step(self, point: Point, evaluate: Evaluate) -> Point:
        """The next point; the same one if no trial lowers the objective."""
        if point is self.lowest:
            return point
        z = point.precondition(point.gradient)
        if not 0.0 < inner(point.gradient, z) < math.inf:  # rounding errors have made the preconditioner useless
            z = point.gradient
        direction, slope = self._direction(point, z)
        trial, length = self._search(point, direction, slope, evaluate)
        if trial is None:
            if self.last is None and self.length == 1.0:
                self.lowest = point
            self.last, self.length = None, 1.0
            return point
        # Vector transport on this manifold is the projection to the new tangent space.
        self.last = trial.tangent.project(length * direction), trial.tangent.project(point.gradient)
        return trial

    def _direction(self, point: Point, z: Floats) -> tuple[Floats, float]:
        steepest = -inner(point.gradient, z)
        if self.last is None:
            return -z, steepest
        before, gradient = self.last
        change = point.gradient - gradient
        curvature = inner(before, change)
        beta = max(0.0, inner(change, z) / curvature) if curvature > 0 else 0.0
        direction = beta * before - z
        slope = inner(point.gradient, direction)
        # Restart if the direction descends much less steeply than the negative gradient.
        return (direction, slope) if slope < 0.05 * steepest else (-z, steepest)

    def _search(self, point: Point, direction: Floats, slope: float, evaluate: Evaluate) -> tuple[Point | None, float]:
        """Backtrack; the parabola through value, slope and trial gives the next length, also for the next step."""
        length = self.length
        for _ in range(MOST_TRIALS):
            trial = evaluate(point.tangent.retract(length * direction))
            bend = trial.value - point.value - length * slope
            best = -0.5 * slope * length**2 / bend if bend > 0 else math.inf
            if trial.value <= point.value + ARMIJO * length * slope:
                self.length = min(max(best, 0.5 * length), 2.0 * length)
                return trial, length
            length = min(max(best, 0.1 * length), 0.5 * length) if math.isfinite(best) else 0.1 * length
        return None, 0.0
