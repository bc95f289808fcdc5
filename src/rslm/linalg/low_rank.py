"""The singular values of a product U Vᵀ of thin matrices, without forming it."""

from __future__ import annotations

import numpy as np

from rslm.runtime.types import Floats

LARGE = 1e100


def thin_svd(U: Floats, V: Floats) -> tuple[Floats, Floats, Floats]:
    """P, s, Q with U Vᵀ = P diag(s) Qᵀ and orthonormal columns of P and Q."""
    left, R = np.linalg.qr(U)
    right, S = np.linalg.qr(V)
    A, s, Bt = np.linalg.svd(R @ S.T, full_matrices=False)
    return left @ A, s, right @ Bt.T


def singular_values(U: Floats, V: Floats) -> Floats:
    """The singular values of U Vᵀ, the largest first."""
    size = float(np.abs(V).max(initial=0.0))
    if not np.isfinite(size):
        return np.full(min(U.shape[1], *V.shape), np.inf)
    scale = size if size > LARGE else 1.0  # products of larger numbers may overflow
    return np.asarray(scale * np.linalg.svd(np.linalg.qr(U)[1] @ np.linalg.qr(V / scale)[1].T, compute_uv=False))


def nuclear_norm(U: Floats, V: Floats) -> float:
    """‖U Vᵀ‖_* without forming the product."""
    return float(singular_values(U, V).sum())
