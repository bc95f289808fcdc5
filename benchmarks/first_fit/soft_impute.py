"""SoftImpute (Mazumder, Hastie and Tibshirani), with standardised columns and lambda chosen by held-out entries."""

from __future__ import annotations

import numpy as np
from cases import Array

STEPS = 40
RATIO = 0.8  # of one lambda to the one before


def shrunk(Z: Array, weight: float) -> Array:
    """Z with all singular values reduced by `weight`, at least to zero."""
    wide = Z.shape[0] < Z.shape[1]
    squares, vectors = np.linalg.eigh(Z @ Z.T if wide else Z.T @ Z)
    values = np.sqrt(np.maximum(squares, 1e-300))
    keep = values > weight
    projector = (vectors[:, keep] * (1.0 - weight / values[keep])) @ vectors[:, keep].T
    return np.asarray(projector @ Z if wide else Z @ projector)


def iterate(X: Array, seen: Array, W: Array, weight: float, tol: float = 3e-4, most: int = 1000) -> Array:
    """Fill, shrink, and fill again, until the relative change of W is below `tol`."""
    for _ in range(most):
        new = shrunk(np.where(seen, X, W), weight)
        change = np.linalg.norm(new - W)
        W = new
        if change <= tol * max(float(np.linalg.norm(W)), 1e-12):
            break
    return W


def path(X: Array, seen: Array, held: Array | None, steps: int) -> tuple[Array, int]:
    """W at the last lambda, and the number of the lambda with the least error of the held-out entries."""
    weight = float(np.linalg.norm(np.where(seen, X, 0.0), 2))
    W, errors = np.zeros_like(X), [np.inf]
    for _ in range(steps):
        weight *= RATIO
        W = iterate(X, seen, W, weight)
        if held is not None:
            errors.append(float(np.mean((W - X)[held] ** 2)))
            if len(errors) > 6 and min(errors[-5:]) > min(errors):
                break
    return W, int(np.argmin(errors))


def soft_impute(X: Array, seed: int = 0) -> Array:
    """X with its missing entries filled."""
    seen = ~np.isnan(X)
    mean, scale = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    Z = np.where(seen, (X - mean) / scale, 0.0)
    held = seen & (np.random.default_rng(seed).random(X.shape) < 0.1)
    _, steps = path(Z, seen & ~held, held, STEPS)
    W = path(Z, seen, None, steps)[0] if steps else np.zeros_like(Z)
    return np.where(seen, X, mean + scale * W)
