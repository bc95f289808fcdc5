"""min Σ_Ω √(δ² + (w − y)²) + λ Σ_{not Ω} w²  over matrices of rank r, δ → 0: a smooth |w − y|, and zeros elsewhere.

Conjugate gradients on the manifold of matrices of rank r, embedded in all matrices: Polak–Ribière directions,
transport by projection, a step that is nearly exact along the tangent line, Armijo's rule, retraction by the SVD. δ
decreases in stages, each of which starts at the end of the last. The zeros elsewhere are λ ‖W‖² less its part at Ω:
sparse + low rank. The rslm paper writes the same problem divided by λ, with C = 1/λ.

L. Cambier, P.-A. Absil, Robust low-rank matrix completion by Riemannian optimization, SIAM J. Sci. Comput., 2016.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from paper.observed import Entries
from paper.record import Record
from rslm.runtime.types import Floats

NAME = "RMC"
PROBLEM = "√(δ² + error²), δ → 0, + λ · squares of what is not observed; rank r"
GRID = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
DELTAS = (1.0, 1e-1, 1e-2, 1e-3)  # relative to the root mean square of the data
STAGE = 60  # iterations for one δ
FLAT, SMALL = 1e-6, 1e-6  # a stage ends after a relative decrease, or at a relative gradient, below this
ARMIJO, HALVINGS = 1e-4, 20
DOWNHILL = 0.1  # least cosine between a direction and the negative gradient, else it is the negative gradient
LINE_STEPS, LINE_SLOPE = 10, 0.1  # the step along the line: most iterations, and the slope relative to the first


@dataclass(frozen=True)
class Tangent:
    """U M Vᵀ + Up Vᵀ + U Vpᵀ, with Up orthogonal to U and Vp to V."""

    M: Floats
    Up: Floats
    Vp: Floats

    def dot(self, other: Tangent) -> float:
        return float(np.vdot(self.M, other.M) + np.vdot(self.Up, other.Up) + np.vdot(self.Vp, other.Vp))

    def plus(self, factor: float, other: Tangent) -> Tangent:
        return Tangent(self.M + factor * other.M, self.Up + factor * other.Up, self.Vp + factor * other.Vp)


class Point:
    """W = U diag(s) Vᵀ with the smoothed objective at one δ."""

    def __init__(self, data: Entries, lam: float, delta: float, U: Floats, s: Floats, V: Floats) -> None:
        self.data, self.lam, self.delta, self.U, self.s, self.V = data, lam, delta, U, s, V
        self.w = data.at(U * s, V)
        self.error = self.w - data.y
        self.root = np.sqrt(delta**2 + self.error**2)
        self.value = float(self.root.sum()) + lam * float(s @ s - self.w @ self.w)

    @cached_property
    def gradient(self) -> Tangent:
        """The Euclidean gradient is sparse + 2 λ W; W itself is U diag(s) Vᵀ."""
        sparse = self.error / self.root - 2.0 * self.lam * self.w
        left, right = self.data.times(sparse, self.V), self.data.transposed_times(sparse, self.U)
        M = self.U.T @ left
        return Tangent(M + np.diag(2.0 * self.lam * self.s), left - self.U @ M, right - self.V @ M.T)

    def factors(self, xi: Tangent) -> tuple[Floats, Floats]:
        return np.hstack([self.U @ xi.M + xi.Up, self.U]), np.hstack([self.V, xi.Vp])

    def project(self, left: Floats, right: Floats) -> Tangent:
        """The tangent vector nearest to left @ right.T."""
        A, B = right.T @ self.V, left.T @ self.U
        M = B.T @ A
        return Tangent(M, left @ A - self.U @ M, right @ B - self.V @ M.T)

    def moved(self, xi: Tangent, step: float) -> Point:
        """The nearest matrix of rank r to W + step · ξ."""
        r = len(self.s)
        Q, R = np.linalg.qr(xi.Up)
        P, L = np.linalg.qr(xi.Vp)
        middle = np.block([[np.diag(self.s) + step * xi.M, step * L.T], [step * R, np.zeros((r, r))]])
        A, s, Bt = np.linalg.svd(middle)
        # The first r singular values only: the others are what the retraction drops.
        U, V = np.hstack([self.U, Q]) @ A[:, :r], np.hstack([self.V, P]) @ Bt[:r].T
        return Point(self.data, self.lam, self.delta, U, s[:r], V)

    def along(self, xi: Tangent) -> float:
        """The step that nearly minimises the convex objective on the line W + t ξ.

        Each iteration minimises a parabola that touches the objective at t and lies above it elsewhere.
        """
        h = self.data.at(*self.factors(xi))
        bend = 2.0 * self.lam * (xi.dot(xi) - float(h @ h))
        pull = 2.0 * self.lam * (float(self.s @ np.diag(xi.M)) - float(self.w @ h))
        t, first = 0.0, 0.0
        for k in range(LINE_STEPS):
            error = self.error + t * h
            scaled = h / np.sqrt(self.delta**2 + error**2)
            slope = float(scaled @ error) + pull + t * bend
            first = abs(slope) if k == 0 else first
            if k and abs(slope) <= LINE_SLOPE * first:
                break
            t -= slope / (float(scaled @ h) + bend)
        return t


def fit(data: Entries, rank: int, weight: float, record: Record) -> None:
    """`weight` is λ."""
    U, s, V = data.singular_vectors(rank)
    size = float(np.sqrt(np.mean(data.y**2)))
    record(U * s, V)
    for delta in DELTAS:
        point = stage(Point(data, weight, delta * size, U, s, V), record)
        U, s, V = point.U, point.s, point.V


def stage(point: Point, record: Record) -> Point:
    """Conjugate gradients for one δ, until little is gained."""
    direction = _steepest(point)
    for _ in range(STAGE):
        gradient, before = point.gradient, point
        if gradient.dot(gradient) <= SMALL**2 * len(point.data.y):  # no entry's part of the gradient is above 1
            return point
        if direction.dot(gradient) > -DOWNHILL * np.sqrt(direction.dot(direction) * gradient.dot(gradient)):
            direction = _steepest(point)
        point = search(before, direction)
        if point is before:
            return point
        record(point.U * point.s, point.V)
        if before.value - point.value <= FLAT * before.value:
            return point
        carried = [point.project(*before.factors(xi)) for xi in (gradient, direction)]
        change = point.gradient.plus(-1.0, carried[0])
        beta = max(0.0, point.gradient.dot(change) / gradient.dot(gradient))  # Polak–Ribière+
        direction = _steepest(point).plus(beta, carried[1])
    return point


def search(point: Point, direction: Tangent) -> Point:
    """The first step, from the nearly exact one by halving, that fulfils Armijo's rule; the same point if none does."""
    step, slope = point.along(direction), direction.dot(point.gradient)
    for _ in range(HALVINGS):
        new = point.moved(direction, step)
        if new.value <= point.value + ARMIJO * step * slope:
            return new
        step /= 2
    return point


def _steepest(point: Point) -> Tangent:
    return point.gradient.plus(-2.0, point.gradient)
