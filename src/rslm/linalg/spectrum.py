"""The largest singular value of a matrix that is given by its products."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats

DENSE = 64  # S Sᵀ is formed if it has at most this many rows
SPANNED = 1e-6  # singular values of U below this, relative to the first, belong to columns that are not used
SETTLED = 1e-4  # relative size of what S Sᵀ maps out of the span of U, below which the span is taken as invariant
WIDE, MOST = 48, 100  # Lanczos vectors, and how often the iteration restarts


def largest_eigenvalue(gram: Callable[[Floats], Floats], U: Floats) -> tuple[float, str]:
    """An upper bound on the largest eigenvalue of X ↦ S SᵀX, and how it was found; NaN if Lanczos failed.

    At an optimum all singular values of S whose vectors U spans are equal, and Lanczos would hardly separate them. So
    the span of U, whose eigenvalues are exact, is split off first.
    """
    d = len(U)
    if d <= DENSE:
        return max(float(np.linalg.eigvalsh(gram(np.eye(d)))[-1]), 0.0), "dense eigenvalues"
    left, s, _ = np.linalg.svd(U, full_matrices=False)
    Q = np.ascontiguousarray(left[:, s > SPANNED * s[0]]) if s[0] > 0 else np.zeros((d, 0))
    if Q.shape[1]:
        mapped = gram(Q)
        inside = Q.T @ mapped
        largest = float(np.linalg.eigvalsh(0.5 * (inside + inside.T))[-1])
        out = float(np.linalg.norm(mapped - Q @ inside, 2))
        if out <= SETTLED * largest:
            other, method = _lanczos(gram, d, None, Q)
            # The largest eigenvalue of the two parts together, coupled by at most `out`.
            middle, half = 0.5 * (largest + other), 0.5 * (largest - other)
            return middle + math.hypot(half, out), method
    return _lanczos(gram, d, U, None)


def _lanczos(gram: Callable[[Floats], Floats], d: int, U: Floats | None, Q: Floats | None) -> tuple[float, str]:
    """The largest eigenvalue, in the complement of the columns of Q if they are given."""
    products = 0

    def away(x: Floats) -> Floats:
        return x if Q is None else x - Q @ (Q.T @ x)

    def product(x: Floats) -> Floats:
        nonlocal products
        raise_if_stopped()
        products += 1
        return away(gram(np.ascontiguousarray(away(x.reshape(d, 1))))[:, 0])

    begin = away(np.random.default_rng(0).standard_normal(d))
    if U is not None and U.any():  # the columns of U span leading singular vectors; the noise adds all other directions
        lead = U[:, np.argmax(np.linalg.norm(U, axis=0))]
        begin = lead + begin * (0.1 / math.sqrt(d) * np.linalg.norm(lead))
    operator, known = LinearOperator((d, d), matvec=product, dtype=np.float64), d - (0 if Q is None else Q.shape[1])
    if known < 1 or not begin.any():
        return 0.0, "the columns of U span everything"
    try:
        wide = min(d, WIDE)
        (value,), vectors = eigsh(operator, k=1, which="LA", v0=begin, tol=1e-11, ncv=wide, maxiter=MOST)
    except ArpackNoConvergence:
        found, x = _krylov(product, begin)
        value = np.float64(found)
    except ArpackError as failure:
        return math.nan, f"Frobenius norm, because Lanczos failed ({failure})"
    else:
        x = vectors[:, 0]
    # An eigenvalue lies within the residual of the computed one. Adding the residual keeps σ₁ from being too small.
    error = float(np.linalg.norm(product(x) - value * x))
    return max(float(value) + error, 0.0), f"Lanczos, {products} products, residual {error / max(value, 1e-300):.1e}"


def _krylov(product: Callable[[Floats], Floats], begin: Floats) -> tuple[float, Floats]:
    """The best approximation from one long Krylov space, orthogonalised twice."""
    basis = [begin / np.linalg.norm(begin)]
    images = []
    for _ in range(4 * WIDE):
        images.append(product(basis[-1]))
        B = np.array(basis)
        new = images[-1]
        for _ in range(2):
            new = new - B.T @ (B @ new)
        size = float(np.linalg.norm(new))
        if not size > 1e-12 * float(np.linalg.norm(images[-1])):
            break
        basis.append(new / size)
    B = np.array(basis[: len(images)])
    values, vectors = np.linalg.eigh(B @ np.array(images).T)
    return float(values[-1]), np.asarray(B.T @ vectors[:, -1])
