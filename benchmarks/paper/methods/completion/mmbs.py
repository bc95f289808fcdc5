"""MMBS: minimise ‖P_Ω(W − Y)‖² + μ‖W‖_* over W = U B Vᵀ of fixed rank, where ‖W‖_* = trace B is smooth.

U and V are orthonormal and B is symmetric positive definite, modulo rotations of the r coordinates; U and V have the
Euclidean metric, B the affine-invariant one. A Riemannian trust region with the exact Hessian. The authors also raise
the rank one by one until a duality gap is small; here the rank is given, as in the comparison that is reproduced. A
preconditioner is added, without which it takes about four times as many Hessian products on MovieLens-1M: the inverse
of the Hessian that the problem would have at its solution if all entries were observed.

B. Mishra, G. Meyer, F. Bach, R. Sepulchre, Low-rank optimization with trace norm penalty, 2013.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from paper.observed import Entries
from paper.record import Record
from paper.trust_region import minimise
from rslm.runtime.types import Floats

NAME = "MMBS"
PROBLEM = "‖P_Ω(W − Y)‖² + μ‖W‖_*, rank W = r"
GRID = (1e3, 1e2, 1e1, 1.0, 1e-1, 1e-2, 1e-4, 1e-6)  # μ


SMALLEST = 1e-14  # least singular value relative to the largest: a smaller one is 0 up to rounding errors
LONGEST = 20.0  # a step by which a singular value grows or falls by e²⁰ is cut there


def fit(data: Entries, rank: int, weight: float, record: Record) -> None:
    """Run the trust region with μ = `weight`, from the singular vectors of the data."""
    U, s, V = data.singular_vectors(rank)
    minimise(Factored(data, weight, U, s, V), lambda point: record(point.U * point.b, point.V))


class Factored:
    """W = U B Vᵀ, rotated so that B = diag(b).

    A tangent vector has the changes of U, B and V below each other, in an array of r columns.
    """

    def __init__(self, data: Entries, mu: float, U: Floats, b: Floats, V: Floats) -> None:
        self.data, self.mu, self.U, self.b, self.V = data, mu, U, b, V
        squares, self.error, SV = data.columns.residuals(data.y, U * b, V, data.threads)
        self.SV = -2.0 * SV  # S, the gradient by W, is −2 times the errors
        self.value = squares + mu * float(np.sum(b))
        self.areas = np.outer(b, b)

    def _parts(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        d, r = self.U.shape
        return eta[:d], eta[d : d + r], eta[d + r :]

    @cached_property
    def StU(self) -> Floats:
        return -2.0 * self.data.transposed_times(self.error, self.U)

    @cached_property
    def by_B(self) -> Floats:
        """The Euclidean gradient by B."""
        return sym(self.U.T @ self.SV) + self.mu * np.eye(len(self.b))

    @cached_property
    def gradient(self) -> Floats:
        dU, dV = tangent(self.U, self.SV * self.b), tangent(self.V, self.StU * self.b)
        return np.vstack([dU, self.areas * self.by_B, dV])

    def inner(self, a: Floats, b: Floats) -> float:
        (aU, aB, aV), (bU, bB, bV) = self._parts(a), self._parts(b)
        return float(np.vdot(aU, bU) + np.vdot(aB / self.areas, bB) + np.vdot(aV, bV))

    def _horizontal(self, dU: Floats, dB: Floats, dV: Floats) -> Floats:
        """The tangent vector without its component along rotations (UΩ, BΩ − ΩB, VΩ) of the coordinates."""
        dU, dV = tangent(self.U, dU), tangent(self.V, dV)
        along = self.U.T @ dU + self.V.T @ dV + dB / self.b - dB / self.b[:, None]
        ratio = self.b[:, None] / self.b
        turn = along / (ratio + ratio.T)
        return np.vstack([dU - self.U @ turn, dB - turn * (self.b[:, None] - self.b), dV - self.V @ turn])

    def hessian(self, eta: Floats) -> Floats:
        dU, dB, dV = self._parts(eta)
        U, b, V, data = self.U, self.b, self.V, self.data
        # W changes by (dU B + U dB) Vᵀ + U B dVᵀ.
        change = 2.0 * data.at(np.hstack([dU * b + U @ dB, U * b]), np.hstack([V, dV]))
        moved_SV = data.times(change, V) - 2.0 * data.times(self.error, dV)
        moved_StU = data.transposed_times(change, U) - 2.0 * data.transposed_times(self.error, dU)
        hU = moved_SV * b + self.SV @ dB - dU @ sym(U.T @ self.SV * b)
        hV = moved_StU * b + self.StU @ dB - dV @ sym(V.T @ self.StU * b)
        hB = self.areas * sym(dU.T @ self.SV + U.T @ moved_SV) + sym(dB @ self.by_B * b)
        return self._horizontal(hU, hB, hV)

    def precondition(self, eta: Floats) -> Floats:
        dU, dB, dV = self._parts(eta)
        density = 2.0 * len(self.data.y) / float(np.prod(self.data.shape))
        long = density * self.b**2 + self.mu * self.b
        unused = np.maximum(np.diag(self.by_B), 0.0) * self.b  # not 0 where singular values go to 0
        return self._horizontal(dU / long, dB / (density * self.areas + 0.5 * np.add.outer(unused, unused)), dV / long)

    def retract(self, eta: Floats) -> Factored:
        dU, dB, dV = self._parts(eta)
        rates, axes = np.linalg.eigh(sym(dB / np.sqrt(self.areas)))
        root = np.sqrt(self.b)[:, None] * axes * np.exp(0.5 * np.clip(rates, -LONGEST, LONGEST))
        turn, s, _ = np.linalg.svd(root)
        b = np.maximum(s**2, SMALLEST * s[0] ** 2)
        return Factored(self.data, self.mu, orthonormal(self.U + dU) @ turn, b, orthonormal(self.V + dV) @ turn)


def sym(X: Floats) -> Floats:
    return 0.5 * (X + X.T)


def tangent(U: Floats, X: Floats) -> Floats:
    """The component of X that is tangent to the orthonormal matrices at U."""
    return X - U @ sym(U.T @ X)


def orthonormal(X: Floats) -> Floats:
    """The nearest matrix with orthonormal columns."""
    values, vectors = np.linalg.eigh(X.T @ X)
    return np.asarray(X @ ((vectors / np.sqrt(values)) @ vectors.T))
