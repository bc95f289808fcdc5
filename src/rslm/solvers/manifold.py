"""The spectrahedron manifold: d × r matrices of Frobenius norm 1, modulo rotations U → U Q."""

from __future__ import annotations

import numpy as np

from rslm.runtime.types import Floats


def inner(a: Floats, b: Floats) -> float:
    """⟨a, b⟩, the metric of the manifold."""
    return float(np.vdot(a, b))


def norm(a: Floats) -> float:
    return float(np.linalg.norm(a))


FAR = 1e100  # steps beyond that are scaled before their squares are summed


class Tangent:
    """The horizontal tangent space at U: ξ with ⟨ξ, U⟩ = 0 and Uᵀξ symmetric."""

    def __init__(self, U: Floats) -> None:
        self.U = U
        left, R = np.linalg.qr(U)
        A, s, self._Qt = np.linalg.svd(R, full_matrices=False)
        self._P, self._s = left @ A, s
        # The part of a matrix along the rotations U Ω is, between singular vectors i and j, σ_i (σ_i A_ij − σ_j A_ji) /
        # (σ_i² + σ_j²): a matter of the angle of (σ_i, σ_j) alone, however small both are. Where both are zero, which
        # they are at the wanted optimum, rotations do not move U and nothing is taken away.
        squares = s[:, None] ** 2 + s[None, :] ** 2
        zero = np.finfo(float).eps * max(U.shape) * s[0]
        squares[np.maximum(s[:, None], s[None, :]) <= zero] = np.inf
        self._own: Floats = s[:, None] ** 2 / squares
        self._other: Floats = s[:, None] * s[None, :] / squares

    def project(self, X: Floats) -> Floats:
        """The orthogonal projection of any d × r matrix."""
        A = self._P.T @ X @ self._Qt.T
        away = self._own * A - self._other * A.T
        away[np.diag_indices_from(away)] += self._s * (self._s @ np.diagonal(A))  # ⟨U, X⟩ U
        return np.asarray(X - self._P @ (away @ self._Qt))

    def gradient(self, euclidean: Floats) -> Floats:
        """The Riemannian gradient."""
        return self.project(euclidean)

    def hessian(self, euclidean: Floats, derivative: Floats, xi: Floats) -> Floats:
        """The Riemannian Hessian along ξ, from ∇g and D∇g[ξ]."""
        return self.project(derivative - inner(euclidean, self.U) * xi)

    def retract(self, xi: Floats) -> Floats:
        longest = float(np.abs(xi).max())
        if not np.isfinite(longest):  # nowhere
            return self.U.copy()
        size = max(longest, 1.0)  # whose square may be too large
        moved = self.U / size + xi / size if size > FAR else self.U + xi
        length = norm(moved)
        return moved / length if length > 0 else self.U.copy()  # a direction that rounding errors have turned back to 0
