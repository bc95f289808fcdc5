"""The largest singular value of a matrix that is given by its products."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats

DENSE = 64  # S Sᵀ is formed if it has at most this many rows


def largest_eigenvalue(gram: Callable[[Floats], Floats], U: Floats) -> tuple[float, str]:
    """An upper bound on the largest eigenvalue of X ↦ S SᵀX, and how it was found; NaN if Lanczos failed."""
    d = len(U)
    if d <= DENSE:
        return max(float(np.linalg.eigvalsh(gram(np.eye(d)))[-1]), 0.0), "dense eigenvalues"
    products = 0

    def product(x: Floats) -> Floats:
        nonlocal products
        raise_if_stopped()
        products += 1
        return gram(x.reshape(d, 1))[:, 0]

    # At the optimum the columns of U span the leading singular vectors; the noise adds all other directions.
    lead = U[:, np.argmax(np.linalg.norm(U, axis=0))]
    begin = lead + np.random.default_rng(0).standard_normal(d) * (0.1 / math.sqrt(d) * np.linalg.norm(lead))
    operator = LinearOperator((d, d), matvec=product, dtype=np.float64)
    try:
        (value,), vectors = eigsh(operator, k=1, which="LA", v0=begin, tol=1e-11, ncv=min(d, 24))
    except ArpackError as failure:
        return math.nan, f"Frobenius norm, because Lanczos did not converge ({failure})"
    x = vectors[:, 0]
    # An eigenvalue lies within the residual of the computed one. Adding the residual keeps σ₁ from being too small.
    error = float(np.linalg.norm(product(x) - value * x))
    return max(float(value) + error, 0.0), f"Lanczos, {products} products, residual {error / max(value, 1e-300):.1e}"
