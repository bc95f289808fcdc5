"""R3MC: minimise ‖P_Ω(W − Y)‖² + λ‖W‖² over W = U R Vᵀ of fixed rank, with U and V orthonormal and R any r × r matrix.

Non-linear conjugate gradients (Polak–Ribière+) on the quotient by rotations of U and V, in a metric that preconditions:
changes of U are weighted by R Rᵀ and those of V by RᵀR, as in the Hessian of the square loss if all entries were
observed. The first step length minimises the objective along the linearised W; it is halved until it suffices. The rank
rises from 1 to the given one by the authors' rank-one updates, along the leading singular vectors of the residual. On
ratings that is much better than starting at the full rank. The authors penalise W outside Ω only; here it is all of W.

B. Mishra, R. Sepulchre, R3MC: a Riemannian three-factor algorithm for low-rank matrix completion, 2014.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from paper.observed import Entries
from paper.record import Record
from rslm.runtime.types import Floats

NAME = "R3MC"
PROBLEM = "‖P_Ω(W − Y)‖² + λ‖W‖², rank W = r"
GRID = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 0.0)  # λ

START = 1  # rank to begin with
STAGNATES = 1e-3  # the rank rises if the objective falls by less than this, relative
MOST_STEPS = 500
SMALL_GRADIENT = 1e-6  # relative to the start
SMALL_CHANGE = 1e-7  # of the objective, relative
EXACT = 1e-20  # objective relative to the data that is as good as 0
ARMIJO = 1e-4
MOST_HALVINGS = 20


def fit(data: Entries, rank: int, weight: float, record: Record) -> None:
    """Run conjugate gradients with λ = `weight`, from the singular vectors of the data."""
    U, s, V = data.singular_vectors(min(START, rank))
    point = ThreeFactors(data, weight, U, np.diag(s), V)
    record(point.U @ point.R, point.V)
    square = first = point.inner(point.gradient, point.gradient)
    direction = -point.gradient
    for _ in range(MOST_STEPS):
        if point.inner(point.gradient, direction) >= 0:
            direction = -point.gradient
        trial = searched(point, direction)
        if trial is None:  # along a direction of descent: the rest is rounding errors
            return
        change = 1.0 - trial.value / point.value
        before = trial.transport(point.gradient)
        square, last = trial.inner(trial.gradient, trial.gradient), square
        beta = max(0.0, (square - trial.inner(trial.gradient, before)) / last)
        direction = beta * trial.transport(direction) - trial.gradient
        point = trial
        record(point.U @ point.R, point.V)
        if point.value <= EXACT * (data.y @ data.y):
            return
        if len(point.R) < rank:
            if change <= STAGNATES:
                point = point.wider()
                square = point.inner(point.gradient, point.gradient)
                direction = -point.gradient
        elif change <= SMALL_CHANGE or square <= SMALL_GRADIENT**2 * first:
            return


def searched(point: ThreeFactors, direction: Floats) -> ThreeFactors | None:
    """A point along a direction of descent where the objective is sufficiently smaller, if there is one."""
    step, slope = point.linearised_step(direction), point.inner(point.gradient, direction)
    for _ in range(MOST_HALVINGS):
        trial = point.retract(step * direction)
        if trial.value <= point.value + ARMIJO * step * slope:
            return trial
        step /= 2.0
    return None


class ThreeFactors:
    """W = U R Vᵀ. A tangent vector has the changes of U, R and V below each other, in an array of r columns."""

    def __init__(self, data: Entries, lam: float, U: Floats, R: Floats, V: Floats) -> None:
        self.data, self.lam, self.U, self.R, self.V = data, lam, U, R, V
        squares, self.error, self.SV = data.columns.residuals(data.y, U @ R, V, data.threads)
        self.value = squares + lam * float(np.sum(R**2))
        P, self.s, Qt = np.linalg.svd(R)
        self.P, self.Q = P, Qt.T

    def _parts(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        d, r = self.U.shape
        return eta[:d], eta[d : d + r], eta[d + r :]

    @cached_property
    def gradient(self) -> Floats:
        """In the metric of `inner`; it is horizontal, because the objective does not change with rotations."""
        by_R = -2.0 * (self.U.T @ self.SV) + 2.0 * self.lam * self.R
        StU = -2.0 * self.data.transposed_times(self.error, self.U)
        dU = -2.0 * self.SV @ self.R.T @ weighted(self.P, self.s**-2)
        dV = StU @ self.R @ weighted(self.Q, self.s**-2)
        return np.vstack([tangent(self.U, dU, self.P, self.s), by_R, tangent(self.V, dV, self.Q, self.s)])

    def inner(self, a: Floats, b: Floats) -> float:
        (aU, aR, aV), (bU, bR, bV) = self._parts(a), self._parts(b)
        return float(np.vdot(aU @ self.R, bU @ self.R) + np.vdot(aR, bR) + np.vdot(aV @ self.R.T, bV @ self.R.T))

    def transport(self, eta: Floats) -> Floats:
        """The horizontal vector nearest to `eta`, which is tangent elsewhere.

        Rotations of U and V by skew M and N move along (U M, R N − M R, V N). Their components are found in the
        singular vectors of R, where they are one 2 × 2 system for every pair of coordinates.
        """
        U, R, V, P, Q, s = self.U, self.R, self.V, self.P, self.Q, self.s
        dU, dR, dV = self._parts(eta)
        dU, dV = tangent(U, dU, P, s), tangent(V, dV, Q, s)
        m = P.T @ skew(U.T @ dU @ R @ R.T - dR @ R.T) @ P
        n = Q.T @ skew(V.T @ dV @ R.T @ R + R.T @ dR) @ Q
        total, mixed = np.add.outer(s**2, s**2), np.outer(s, s)
        scale = total**2 - mixed**2
        M = P @ ((total * m + mixed * n) / scale) @ P.T
        N = Q @ ((total * n + mixed * m) / scale) @ Q.T
        return np.vstack([dU - U @ M, dR - R @ N + M @ R, dV - V @ N])

    def linearised_step(self, eta: Floats) -> float:
        """The step that minimises the objective along W + t (dU R Vᵀ + U dR Vᵀ + U R dVᵀ)."""
        dU, dR, dV = self._parts(eta)
        change = self.data.at(np.hstack([dU @ self.R + self.U @ dR, self.U @ self.R]), np.hstack([self.V, dV]))
        size = float(change @ change) + self.lam * float(np.sum(dR**2))
        return (float(change @ self.error) - self.lam * float(np.vdot(self.R, dR))) / size

    def retract(self, eta: Floats) -> ThreeFactors:
        dU, dR, dV = self._parts(eta)
        return ThreeFactors(self.data, self.lam, orthonormal(self.U + dU), self.R + dR, orthonormal(self.V + dV))

    def wider(self) -> ThreeFactors:
        """One rank more: W and the leading singular triplet of the residual."""
        p, s, q = Entries(self.data.columns, self.error, self.data.threads).singular_vectors(1)
        U, A = np.linalg.qr(np.hstack([self.U @ self.R, s * p]))
        V, B = np.linalg.qr(np.hstack([self.V, q]))
        return ThreeFactors(self.data, self.lam, U, A @ B.T, V)


def skew(X: Floats) -> Floats:
    return 0.5 * (X - X.T)


def weighted(P: Floats, weights: Floats) -> Floats:
    return (P * weights) @ P.T


def tangent(U: Floats, X: Floats, P: Floats, s: Floats) -> Floats:
    """The component of X tangent to the orthonormal matrices at U, where columns are weighted by A = P diag(s²) Pᵀ.

    What is normal to them is U N A⁻¹ with symmetric N.
    """
    turned = P.T @ (U.T @ X + X.T @ U) @ P
    N = turned / np.add.outer(s**-2, s**-2)
    return X - U @ (P @ (N * s**-2) @ P.T)


def orthonormal(X: Floats) -> Floats:
    """The nearest matrix with orthonormal columns."""
    values, vectors = np.linalg.eigh(X.T @ X)
    return X @ weighted(vectors, values**-0.5)
