"""The spectrahedron manifold: d × r matrices of Frobenius norm 1, modulo rotations U → U Q."""

from __future__ import annotations

import numpy as np

from rslm.runtime.types import Floats


def inner(a: Floats, b: Floats) -> float:
    """⟨a, b⟩, the metric of the manifold."""
    return float(np.vdot(a, b))


def norm(a: Floats) -> float:
    return float(np.linalg.norm(a))


FAR = 1e100  # longer steps are scaled before their squares are summed


class Tangent:
    """The horizontal tangent space at U: ξ with ⟨ξ, U⟩ = 0 and Uᵀξ symmetric."""

    def __init__(self, U: Floats) -> None:
        self.U = U
        left, R = np.linalg.qr(U)
        A, s, self._Qt = np.linalg.svd(R, full_matrices=False)
        self._P, self._s = left @ A, s
        # Between singular vectors i and j, the component of a matrix along the rotations U Ω is
        # σ_i (σ_i A_ij − σ_j A_ji) / (σ_i² + σ_j²). It depends only on the ratio of σ_i and σ_j, however small both
        # are. If both are zero, as at many optima, rotations do not change U and nothing is subtracted.
        squares = s[:, None] ** 2 + s[None, :] ** 2
        zero = np.finfo(float).eps * max(U.shape) * s[0]
        squares[np.maximum(s[:, None], s[None, :]) <= zero] = np.inf
        self._own: Floats = s[:, None] ** 2 / squares
        self._other: Floats = s[:, None] * s[None, :] / squares

    def project(self, X: Floats) -> Floats:
        """The orthogonal projection of any d × r matrix."""
        A = self._P.T @ X @ self._Qt.T
        away = self._own * A - self._other * A.T
        away.flat[:: len(A) + 1] += self._s * (self._s @ np.diagonal(A))  # ⟨U, X⟩ U
        return np.asarray(X - self._P @ (away @ self._Qt))

    def gradient(self, euclidean: Floats) -> Floats:
        """The Riemannian gradient."""
        return self.project(euclidean)

    def hessian(self, euclidean: Floats, derivative: Floats, xi: Floats) -> Floats:
        """The Riemannian Hessian along ξ, from ∇g and D∇g[ξ]."""
        return self.project(derivative - inner(euclidean, self.U) * xi)

    def retract(self, xi: Floats) -> Floats:
        longest = float(np.abs(xi).max())
        if not np.isfinite(longest):  # such a step leads nowhere
            return self.U.copy()
        size = max(longest, 1.0)  # its square may overflow
        moved = self.U / size + xi / size if size > FAR else self.U + xi
        length = norm(moved)
        return moved / length if length > 0 else self.U.copy()  # 0 only if rounding errors made ξ equal to −U


class ProductTangent:
    """The tangent space at U and effects: that at U times all effects, which are the last column of the point."""

    def __init__(self, x: Floats, U: Floats) -> None:
        self.x, self.of_U = x, Tangent(U)
        self._d = len(U)

    def _joined(self, U: Floats, like: Floats) -> Floats:
        out = like.copy()
        out[: self._d, :-1] = U
        return out

    def project(self, X: Floats) -> Floats:
        """The orthogonal projection of any array of the shape of the point."""
        return self._joined(self.of_U.project(X[: self._d, :-1]), X)

    def gradient(self, euclidean: Floats) -> Floats:
        """The Riemannian gradient."""
        return self.project(euclidean)

    def hessian(self, euclidean: Floats, derivative: Floats, xi: Floats) -> Floats:
        """The Riemannian Hessian along ξ, from ∇g and D∇g[ξ]."""
        at = slice(self._d), slice(-1)
        return self._joined(self.of_U.hessian(euclidean[at], derivative[at], xi[at]), derivative)

    def retract(self, xi: Floats) -> Floats:
        if not np.isfinite(xi).all():  # such a step leads nowhere
            return self.x.copy()
        return self._joined(self.of_U.retract(xi[: self._d, :-1]), self.x + xi)
