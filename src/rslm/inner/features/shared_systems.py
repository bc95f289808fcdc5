"""The normal equations of columns that share coefficients: (I + B̃ᵀ H B̃) Δ = R, with B̃ = [X, diag(λ)].

H has a block H_t = C F_tᵀ D_t F_t of rank × rank for every column t. Eliminating each column's own coefficients λ_t Δ_t
leaves a system for the coefficients of the features X:

    K_t = H_t (I + λ_t² H_t)⁻¹,    (I + Xᵀ K X) Δ_X = R_X − Xᵀ K λ R_I,    Δ_I = R_I − λ K (λ R_I + X Δ_X).

No pass over the entries is needed once the blocks are computed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from rslm.linalg.conjugate_gradients import conjugate_gradients
from rslm.measurements import Side
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats

DIRECT = 1500  # largest number of unknowns for which the system of the features is factorised
MOST_STEPS, EXACT = 1000, 1e-13  # of conjugate gradients, and their relative residual


class SharedSystem:
    """The normal equations at one point."""

    def __init__(self, side: Side, H: Floats, threads: int) -> None:
        self.side, self.threads = side, threads
        self.K: Floats = H if side.own is None else _divided(H, side.own)
        self._mean = None
        self._factor: Callable[[Floats], Floats] | None = None
        if side.X is not None:
            if side.features * H.shape[1] <= DIRECT:
                self._factor = _factorised(self._matrix())
            else:
                self._mean = np.linalg.eigh(self.K.mean(axis=0))

    def solve(self, R: Floats) -> Floats:
        side = self.side
        k, X = side.features, side.X
        if side.own is None:
            return self._of_features(R)
        own = side.own[:, None]
        if X is None:
            return R - own * self._times_K(own * R)
        of_own = own * R[k:]
        of_features = self._of_features(R[:k] - X.transposed_times(self._times_K(of_own), self.threads))
        lifted = X.times(of_features, self.threads)
        return np.concatenate([of_features, R[k:] - own * self._times_K(of_own + lifted)])

    def _times_K(self, G: Floats) -> Floats:
        return np.asarray(np.matmul(self.K, G[:, :, None])[:, :, 0])

    def _of_features(self, R: Floats) -> Floats:
        """(I + XᵀKX)⁻¹ R."""
        if self._factor is not None:
            return np.asarray(self._factor(R.ravel()).reshape(R.shape))
        return self._iterated(R)

    def _matrix(self) -> Floats:
        """I + XᵀKX, with the coefficients of a feature next to each other."""
        assert self.side.X is not None
        k, r = self.side.features, self.K.shape[1]
        blocks = self.K.reshape(len(self.K), r * r)
        blocks_of_M = np.empty((k, r, k, r))
        for a, (rows, values, others) in enumerate(self.side.X.columns):
            raise_if_stopped()
            products = others.T @ (values[:, None] * blocks[rows])  # of feature a with all others
            blocks_of_M[a] = np.asarray(products).reshape(k, r, r).transpose(1, 0, 2)
        M: Floats = blocks_of_M.reshape(k * r, k * r)
        M[np.diag_indices(k * r)] += 1.0
        return M

    def _iterated(self, R: Floats) -> Floats:
        """Solution by conjugate gradients; in the preconditioner, the blocks K_t are replaced by their mean."""
        assert self.side.X is not None
        assert self._mean is not None
        X, (mu, turn) = self.side.X, self._mean
        vectors, values = X.spectrum
        between = 1.0 + np.outer(values, np.maximum(mu, 0.0))

        def precondition(E: Floats) -> Floats:
            turned = (E if vectors is None else vectors.T @ E) @ turn / between
            return np.asarray((turned if vectors is None else vectors @ turned) @ turn.T)

        def product(E: Floats) -> Floats:
            return E + X.transposed_times(self._times_K(X.times(E, self.threads)), self.threads)

        return conjugate_gradients(product, R, precondition, tol=EXACT, most=MOST_STEPS)


def _factorised(M: Floats) -> Callable[[Floats], Floats]:
    """R ↦ M⁻¹ R for a matrix whose eigenvalues are at least 1, apart from rounding errors."""
    try:
        factor = cho_factor(M, check_finite=False)
    except LinAlgError:
        if not np.isfinite(M).all():
            return lambda R: np.full(R.shape, np.nan)  # the objective is not finite either
        values, vectors = np.linalg.eigh(M)
        values = np.maximum(values, 1.0)
        return lambda R: np.asarray(vectors @ ((vectors.T @ R) / values))
    return lambda R: np.asarray(cho_solve(factor, R, check_finite=False))


def _divided(H: Floats, own: Floats) -> Floats:
    """H (I + λ²H)⁻¹ of every block."""
    square = own[:, None, None] ** 2
    try:
        K = np.linalg.solve(np.eye(H.shape[1]) + square * H, H)
    except LinAlgError:  # λ²H is so large that rounding errors make its small eigenvalues −1
        if not np.isfinite(H).all():
            return np.full(H.shape, np.nan)  # the objective is not finite either
        values, vectors = np.linalg.eigh(H)
        values = np.maximum(values, 0.0)
        return np.asarray(
            (vectors * (values / (1.0 + square[:, :, 0] * values))[:, None, :]) @ vectors.transpose(0, 2, 1)
        )
    return np.asarray(0.5 * (K + K.transpose(0, 2, 1)))
