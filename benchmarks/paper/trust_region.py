"""Riemannian trust regions with preconditioned truncated conjugate gradients, as MMBS and RTRMC prescribe.

P.-A. Absil, C. G. Baker, K. A. Gallivan, Trust-region methods on Riemannian manifolds, 2007. The region is measured in
the norm of the preconditioner, and its first radius is the length of the preconditioned gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, Self, TypeVar

import numpy as np

from rslm.runtime.types import Floats

ACCEPT = 0.1  # least ratio of actual to predicted decrease for which a step is taken
KAPPA = 0.1  # the model is minimised to min(KAPPA, relative residual) of the gradient: quadratic convergence
MOST_INNER = 500
MOST_STEPS = 500
SMALL_GRADIENT = 1e-6  # relative to the start
SMALL_CHANGE = 1e-7  # of the objective by a step that was taken, relative
NOISE = 1e3 * np.finfo(float).eps  # rounding error of an objective, relative


class Point(Protocol):
    """A point of the manifold; tangent vectors are arrays, horizontal and in the metric of `inner`."""

    value: float

    @property
    def gradient(self) -> Floats: ...
    def inner(self, a: Floats, b: Floats) -> float: ...
    def hessian(self, eta: Floats) -> Floats: ...
    def precondition(self, eta: Floats) -> Floats: ...
    def retract(self, eta: Floats) -> Self: ...


P = TypeVar("P", bound=Point)


def minimise(point: P, record: Callable[[P], None]) -> None:
    """Minimise from a point on, calling `record` with it and with the point after every step."""
    record(point)
    first = last = math.sqrt(point.inner(point.gradient, point.gradient))
    radius = 0.0
    for _ in range(MOST_STEPS):
        if last <= SMALL_GRADIENT * first:
            return
        eta, decrease, length, radius = truncated_cg(point, radius, min(KAPPA, last / first))
        trial = point.retract(eta)
        noise = NOISE * abs(point.value)
        ratio = (point.value - trial.value + noise) / (decrease + noise)
        if not ratio >= 0.25:  # also if it is NaN
            radius = length / 4.0
        elif ratio > 0.75 and length >= 0.999 * radius:
            radius *= 2.0
        change = 1.0
        if ratio > ACCEPT:
            change = (point.value - trial.value) / abs(point.value)
            point = trial
            last = math.sqrt(point.inner(point.gradient, point.gradient))
        record(point)
        if change <= SMALL_CHANGE or radius <= NOISE * length:
            return


def truncated_cg(point: Point, radius: float, tolerance: float) -> tuple[Floats, float, float, float]:
    """The step that minimises the quadratic model, its decrease, its length and the radius; a radius of 0 is chosen."""
    residual = point.gradient
    eta, h_eta = np.zeros_like(residual), np.zeros_like(residual)
    z = point.precondition(residual)
    rz = point.inner(residual, z)
    radius = radius or math.sqrt(rz)
    target = tolerance * math.sqrt(rz)
    delta = -z
    eta_eta, eta_delta, delta_delta = 0.0, 0.0, rz  # in the norm of the preconditioner, by recurrence
    for _ in range(MOST_INNER):
        h_delta = point.hessian(delta)
        curvature = point.inner(delta, h_delta)
        alpha = rz / curvature if curvature > 0 else math.inf
        square = eta_eta + 2.0 * alpha * eta_delta + alpha**2 * delta_delta if curvature > 0 else math.inf
        if square >= radius**2:
            alpha = (math.sqrt(eta_delta**2 + delta_delta * (radius**2 - eta_eta)) - eta_delta) / delta_delta
            eta, h_eta, eta_eta = eta + alpha * delta, h_eta + alpha * h_delta, radius**2
            break
        eta, h_eta, eta_eta = eta + alpha * delta, h_eta + alpha * h_delta, square
        residual = residual + alpha * h_delta
        z = point.precondition(residual)
        rz, before = point.inner(residual, z), rz
        if not rz > target**2:
            break
        beta = rz / before
        delta = beta * delta - z
        eta_delta = beta * (eta_delta + alpha * delta_delta)
        delta_delta = rz + beta**2 * delta_delta
    decrease = -point.inner(point.gradient, eta) - 0.5 * point.inner(eta, h_eta)
    return eta, decrease, math.sqrt(eta_eta), radius
