"""The spectrahedron manifold: d × r matrices of Frobenius norm 1, modulo rotations U → U Q."""

from __future__ import annotations

import numpy as np

from rslm._typing import Floats


def inner(a: Floats, b: Floats) -> float:
    """⟨a, b⟩, the metric of the manifold."""
    return float(np.vdot(a, b))


def norm(a: Floats) -> float:
    return float(np.linalg.norm(a))


class Tangent:
    """The horizontal tangent space at U: ξ with ⟨ξ, U⟩ = 0 and Uᵀξ symmetric."""

    def __init__(self, U: Floats) -> None:
        self.U = U
        s, self._Q = np.linalg.eigh(U.T @ U)
        sums = s[:, None] + s[None, :]
        # Where U is rank deficient, which the wanted optimum is, two of its directions can be rotated into each other
        # without moving U: the Lyapunov equation leaves that part of Λ free, and it is taken to be zero.
        guard = np.finfo(float).eps * max(len(s), 1) * s[-1]
        self._weights: Floats = np.where(sums > guard, 1.0 / np.where(sums > guard, sums, 1.0), 0.0)

    def project(self, X: Floats) -> Floats:
        """The orthogonal projection of any d × r matrix."""
        UX = self.U.T @ X
        # Λ solves (UᵀU)Λ + Λ(UᵀU) = UᵀX − XᵀU, in the eigenbasis of UᵀU.
        skew = self._Q.T @ (UX - UX.T) @ self._Q
        move = self._Q @ (skew * self._weights) @ self._Q.T
        move[np.diag_indices_from(move)] += np.trace(UX)
        return np.asarray(X - self.U @ move)

    def gradient(self, euclidean: Floats) -> Floats:
        """The Riemannian gradient."""
        return self.project(euclidean)

    def hessian(self, euclidean: Floats, derivative: Floats, xi: Floats) -> Floats:
        """The Riemannian Hessian along ξ, from ∇g and D∇g[ξ]."""
        return self.project(derivative - inner(euclidean, self.U) * xi)

    def retract(self, xi: Floats) -> Floats:
        moved = self.U + xi
        return moved / norm(moved)
