"""Riemannian trust regions with preconditioned truncated conjugate gradients.

The region is measured in the norm of the preconditioner B, which is an approximate Hessian, so that the radius does not
depend on the scales of the data and of C.

Far from a solution the quadratic model is poor and most of its steps are rejected. So preconditioned
conjugate-gradient steps, of one evaluation each, come first, until the gradient is small: on MovieLens-1M they halve
the time until the test error is within 0.001 of its last value, and save a quarter of the whole. With rounded kinks the
Hessian changes much from step to step; then these steps go on until the gradient is smaller, and rejected steps teach
the model what it misses.

The model is minimised as accurately as it has proved to be: to the square of the factor by which the last step has
reduced the gradient (Eisenstat and Walker). Where the Hessian changes much, accuracy would be wasted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rslm.runtime.types import Floats
from rslm.solvers.conjugate_gradient import ConjugateGradient
from rslm.solvers.manifold import inner, norm
from rslm.solvers.missed import MissedCurvature, StiffPoint
from rslm.solvers.point import Evaluate, Point

ACCEPT = 0.1  # least ratio of actual to predicted decrease for which a step is accepted
KAPPA = 0.1  # the inner iteration stops at a residual of min(KAPPA, (gradient / gradient before the last step)²)
MOST_INNER = 500
LONG = 2.0  # length of a step, in radii of the sphere, above which retraction makes its length almost irrelevant
SHORTEST = 0.02  # least fraction of a rejected step that is tried next
SHORTEST_AT_KINKS = 0.5  # the same if the model has learned from it
OPENING = 25  # most conjugate-gradient steps that come first
FAR, FAR_IF_ROUGH = 0.03, 0.01  # relative gradient above which they are made
REMEMBERED = ("radius", "tolerance", "opening_steps", "rough")
ROUGH = 1e-3  # accuracy of the inner iteration for which Hessian products in single precision are good enough


@dataclass(frozen=True)
class ModelStep:
    """A step of the quadratic model: ⟨grad, η⟩ + ½⟨η, H η⟩ = −decrease."""

    eta: Floats
    h_eta: Floats  # H η
    decrease: float
    length: float  # in the norm of B
    at_boundary: bool


class TrustRegion:
    """Takes trust-region steps; remembers the radius between them.

    `kinks` says that the loss has rounded kinks or the bounds are soft, `rough` that the stage begins far from its
    solution because of that.
    """

    def __init__(self, rough: bool = False, kinks: bool = False) -> None:
        self.radius: float | None = None
        self.tolerance = KAPPA
        self.rough = True  # whether Hessian products may be rough: not after a step that was rejected
        self.kinks, self.missed = kinks, MissedCurvature()
        self.opening = ConjugateGradient()
        self.opening_steps, self.far = OPENING, FAR_IF_ROUGH if rough else FAR

    def state(self) -> dict[str, Any]:
        """The state to store in a checkpoint, as numbers and arrays."""
        own = {name: getattr(self, name) for name in REMEMBERED} | {"missed": self.missed.terms}
        return own | self.opening.state() if self.opening_steps else own

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a stored `state`."""
        for name in REMEMBERED:
            setattr(self, name, state[name])
        self.missed = MissedCurvature(state["missed"])
        if self.opening_steps:
            self.opening.restore(state)

    def step(self, point: Point, evaluate: Evaluate) -> Point:
        """The next point; the same one if the trial was rejected."""
        if self.opening_steps and point.relative_gradient > self.far:
            after = self.opening.step(point, evaluate)
            self.opening_steps = 0 if after is point else self.opening_steps - 1  # the next search would fail as well
            return after
        self.opening_steps = 0
        point.evaluation.rough = self.rough and self.tolerance >= ROUGH
        step = truncated_cg(self.missed.model(point), self.radius, self.tolerance)
        if self.radius is None:
            self.radius = step.length
        trial = evaluate(point.tangent.retract(step.eta))
        ratio = agreement(point.value, trial.value, step.decrease, point.evaluation.noise)
        accepted = ratio > ACCEPT
        self.rough = bool(accepted)
        if not ratio >= 0.25:  # also if it is NaN
            part = shortening(point, trial, step.eta)
            if self.kinks and (accepted or self.missed.learn(point, trial, step.eta, step.h_eta)):
                part = max(part, SHORTEST_AT_KINKS)
            self.radius = min(step.length, self.radius) * part
        elif ratio > 0.75 and step.at_boundary:
            self.radius *= 2.0
        if not accepted:
            return point
        self.missed.fade()
        self.tolerance = min(KAPPA, (trial.gradient_norm / point.gradient_norm) ** 2)
        return trial


def shortening(point: Point, trial: Point, eta: Floats) -> float:
    """The fraction of a rejected step to try next, at the minimum of the parabola through value, slope and trial.

    For a step much longer than 1, the radius of the sphere, the parabola says nothing; then the next length is 1.
    """
    if (size := norm(eta)) > LONG:
        return 1.0 / size
    slope = inner(point.gradient, eta)
    bend = trial.value - point.value - slope
    lowest = -0.5 * slope / bend if bend > 0 else 0.25
    return min(max(lowest, SHORTEST), 0.5) if math.isfinite(lowest) else SHORTEST


def unchanged(eta: Floats) -> Floats:
    """The identity, as the preconditioner of last resort."""
    return eta


def agreement(before: float, after: float, predicted: float, noise: float) -> float:
    """Actual over predicted decrease; near 1 if both are smaller than rounding errors, `noise`."""
    return (before - after + noise) / (predicted + noise)


def truncated_cg(point: Point | StiffPoint, radius: float | None, tolerance: float) -> ModelStep:
    """Minimise the quadratic model within the `radius`, if there is one, to the `tolerance`."""
    limit = math.inf if radius is None else radius**2
    eta, h_eta = np.zeros_like(point.x), np.zeros_like(point.x)
    residual = point.gradient
    precondition = point.precondition
    z = precondition(residual)
    rz = inner(residual, z)
    if not 0.0 < rz < math.inf:  # rounding errors have made the preconditioner useless; a gradient of 0 does no harm
        precondition, z = unchanged, residual
        rz = inner(residual, z)
    delta = -z
    target = tolerance * math.sqrt(rz)
    eta_eta, eta_delta, delta_delta = 0.0, 0.0, rz  # products in the norm of B, by recurrence

    def ended(eta: Floats, h_eta: Floats, square: float, at_boundary: bool) -> ModelStep:
        decrease = -(inner(point.gradient, eta) + 0.5 * inner(eta, h_eta))
        return ModelStep(eta, h_eta, decrease, math.sqrt(square), at_boundary)

    for _ in range(MOST_INNER):
        h_delta = point.hessian(delta)
        curvature = inner(delta, h_delta)
        alpha = rz / curvature if curvature > 0 else math.inf
        square = eta_eta + 2.0 * alpha * eta_delta + alpha * alpha * delta_delta if curvature > 0 else math.inf
        if square >= limit:
            if limit == math.inf:  # negative curvature before there is a radius: take the preconditioned step's length
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
        if not beta * beta * delta_delta < math.inf:  # the residual has lost all accuracy
            break
        delta = beta * delta - z
        eta_delta = beta * (eta_delta + alpha * delta_delta)
        delta_delta = rz + beta * beta * delta_delta
    return ended(eta, h_eta, eta_eta, False)
