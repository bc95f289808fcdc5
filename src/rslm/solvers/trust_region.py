"""Riemannian trust regions with preconditioned truncated conjugate gradients.

The region is measured in the norm of the preconditioner B, which is an approximate Hessian: a radius is then a number
of the same meaning whatever the scales of data and C.

Far from a solution the quadratic model is poor and most of its steps are refused. There a few preconditioned
conjugate-gradient steps, of one evaluation each, come first: on MovieLens-1M they save half of the work. Where a loss
with rounded kinks makes the Hessian change from step to step, there are more of them, and down to smaller gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rslm.runtime.types import Floats
from rslm.solvers.conjugate_gradient import ConjugateGradient
from rslm.solvers.manifold import inner, norm
from rslm.solvers.point import Evaluate, Point

ACCEPT = 0.1  # least ratio of actual to predicted decrease for a step to be taken
KAPPA, THETA = 0.1, 1.0  # the inner iteration stops at a residual of min(KAPPA, (gradient / first gradient)^THETA)
MOST_INNER = 500
LONG = 2.0  # steps beyond that, in radii of the sphere, lead to where a shorter one in the same direction leads
SHORTEST = 0.02  # least part of a refused step that is tried next
OPENING, FAR = 4, 0.1  # so many conjugate-gradient steps first, while the relative gradient is larger than that
OPENING_IF_ROUGH, FAR_IF_ROUGH = 25, 0.01
REMEMBERED = ("radius", "first_gradient", "opening_steps")


@dataclass(frozen=True)
class ModelStep:
    """A step of the quadratic model: ⟨grad, η⟩ + ½⟨η, H η⟩ = −decrease."""

    eta: Floats
    decrease: float
    length: float  # in the norm of B
    at_boundary: bool


class TrustRegion:
    """Takes trust-region steps; remembers the radius between them. `rough`: the Hessian is that of rounded kinks."""

    def __init__(self, rough: bool = False) -> None:
        self.radius: float | None = None
        self.first_gradient: float | None = None
        self.opening = ConjugateGradient()
        self.opening_steps, self.far = (OPENING_IF_ROUGH, FAR_IF_ROUGH) if rough else (OPENING, FAR)

    def state(self) -> dict[str, Any]:
        """What is remembered, as numbers and arrays."""
        own = {name: getattr(self, name) for name in REMEMBERED}
        return own | self.opening.state() if self.opening_steps else own

    def restore(self, state: dict[str, Any]) -> None:
        """Go on as the one would whose state this is."""
        for name in REMEMBERED:
            setattr(self, name, state[name])
        if self.opening_steps:
            self.opening.restore(state)

    def step(self, point: Point, evaluate: Evaluate) -> Point:
        """Return the next point, which is the same one if the trial was refused."""
        if self.opening_steps and point.relative_gradient > self.far:
            after = self.opening.step(point, evaluate)
            self.opening_steps = 0 if after is point else self.opening_steps - 1  # the next search would fail as well
            return after
        self.opening_steps = 0
        if self.first_gradient is None:
            self.first_gradient = point.gradient_norm
        tolerance = min(KAPPA, (point.gradient_norm / self.first_gradient) ** THETA)
        step = truncated_cg(point, self.radius, tolerance)
        if self.radius is None:
            self.radius = step.length
        trial = evaluate(point.tangent.retract(step.eta))
        ratio = agreement(point.value, trial.value, step.decrease, point.evaluation.noise)
        if not ratio >= 0.25:  # also when it is not a number
            self.radius = min(step.length, self.radius) * shortening(point, trial, step.eta)
        elif ratio > 0.75 and step.at_boundary:
            self.radius *= 2.0
        return trial if ratio > ACCEPT else point


def shortening(point: Point, trial: Point, eta: Floats) -> float:
    """How much of a refused step to try next: to the lowest point of the parabola through value, slope and trial.

    A step far longer than 1, the radius of the sphere, tells nothing of the way there: its next part is of that length.
    """
    if (size := norm(eta)) > LONG:
        return 1.0 / size
    slope = inner(point.gradient, eta)
    bend = trial.value - point.value - slope
    lowest = -0.5 * slope / bend if bend > 0 else 0.25
    return min(max(lowest, SHORTEST), 0.5) if math.isfinite(lowest) else SHORTEST


def unchanged(eta: Floats) -> Floats:
    """The preconditioner of last resort."""
    return eta


def agreement(before: float, after: float, predicted: float, noise: float) -> float:
    """Actual over predicted decrease; near the end, where both drown in rounding errors, they count as agreeing."""
    return (before - after + noise) / (predicted + noise)


def truncated_cg(point: Point, radius: float | None, tolerance: float) -> ModelStep:
    """Minimise the quadratic model within the radius, or without a radius until the tolerance."""
    limit = math.inf if radius is None else radius**2
    eta, h_eta = np.zeros_like(point.U), np.zeros_like(point.U)
    residual = point.gradient
    precondition = point.precondition
    z = precondition(residual)
    rz = inner(residual, z)
    if not 0.0 < rz < math.inf:  # rounding errors have taken the preconditioner away; a gradient of 0 is no matter here
        precondition, z = unchanged, residual
        rz = inner(residual, z)
    delta = -z
    target = tolerance * math.sqrt(rz)
    eta_eta, eta_delta, delta_delta = 0.0, 0.0, rz  # products in the norm of B, by recurrence

    def ended(eta: Floats, h_eta: Floats, square: float, at_boundary: bool) -> ModelStep:
        decrease = -(inner(point.gradient, eta) + 0.5 * inner(eta, h_eta))
        return ModelStep(eta, decrease, math.sqrt(square), at_boundary)

    for _ in range(MOST_INNER):
        h_delta = point.hessian(delta)
        curvature = inner(delta, h_delta)
        alpha = rz / curvature if curvature > 0 else math.inf
        square = eta_eta + 2.0 * alpha * eta_delta + alpha**2 * delta_delta if curvature > 0 else math.inf
        if square >= limit:
            if limit == math.inf:  # negative curvature before there is a radius: a step of the preconditioner's length
                limit = rz if eta_eta == 0.0 else eta_eta
                if eta_eta > 0.0:
                    return ended(eta, h_eta, eta_eta, True)
            root = math.sqrt(max(0.0, eta_delta**2 + delta_delta * (limit - eta_eta)))
            tau = (root - eta_delta) / delta_delta
            return ended(eta + tau * delta, h_eta + tau * h_delta, limit, True)
        eta, h_eta, eta_eta = eta + alpha * delta, h_eta + alpha * h_delta, square
        residual = residual + alpha * h_delta
        z = precondition(residual)
        rz, before = inner(residual, z), rz
        if math.sqrt(max(rz, 0.0)) <= target or not rz > 0:
            break
        beta = rz / before
        delta = beta * delta - z
        eta_delta = beta * (eta_delta + alpha * delta_delta)
        delta_delta = rz + beta**2 * delta_delta
    return ended(eta, h_eta, eta_eta, False)
