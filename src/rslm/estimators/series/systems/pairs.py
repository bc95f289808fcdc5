"""Pairs (A, C) of a state and an output matrix, in coordinates in which all poles are inside a circle.

Every observable pair whose poles are inside the circle of radius ρ has coordinates in which M = [C; A/ρ] has
orthonormal columns. Let the columns of N complete those of M to an orthonormal basis. Then, up to a change of
coordinates, every pair near M is the span of M + N K for one matrix K of shape (outputs, order). So steps in K have no
redundant directions, and no step leaves the circle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rslm.runtime.types import Floats

INSIDE = 1.0 - 1e-6  # largest modulus, relative to the radius, of the poles of a start
OBSERVABLE = 1e-14  # least eigenvalue of a Gramian relative to the largest
NEGLIGIBLE = 1e-20


@dataclass(frozen=True)
class Pair:
    """M with orthonormal columns, [C; A/radius]."""

    M: Floats  #: (outputs + order, order)
    radius: float

    @property
    def order(self) -> int:
        return int(self.M.shape[1])

    @property
    def C(self) -> Floats:
        return self.M[: len(self.M) - self.order]

    @property
    def A(self) -> Floats:
        return self.radius * self.M[len(self.M) - self.order :]

    def complement(self) -> Floats:
        """N, (outputs + order, outputs)."""
        return np.asarray(np.linalg.qr(self.M, mode="complete")[0][:, self.order :])

    def moved(self, N: Floats, K: Floats) -> Pair:
        """The pair spanned by M + N K."""
        return Pair(_orthonormal(self.M + N @ K), self.radius)


def pair_of(A: Floats, C: Floats, radius: float) -> Pair:
    """A pair in these coordinates; poles outside the circle are reflected into it."""
    A = _inside(A / radius)
    values, vectors = np.linalg.eigh(_gramian(A, C))
    roots = np.sqrt(np.maximum(values, max(OBSERVABLE * float(values.max(initial=0.0)), float(np.finfo(float).tiny))))
    back = vectors / roots
    return Pair(_orthonormal(np.concatenate([C @ back, (roots[:, None] * vectors.T) @ A @ back])), radius)


def _orthonormal(M: Floats) -> Floats:
    """The nearest matrix with orthonormal columns."""
    left, _, right = np.linalg.svd(M, full_matrices=False)
    return np.asarray(left @ right)


def _gramian(A: Floats, C: Floats) -> Floats:
    """Σ_k (A^k)ᵀ Cᵀ C A^k over all k ≥ 0, twice as many terms in every pass."""
    G, power = C.T @ C, A
    while np.abs(power).max(initial=0.0) > NEGLIGIBLE:
        G = G + power.T @ G @ power
        with np.errstate(under="ignore"):
            power = power @ power
    return np.asarray(G)


def _inside(A: Floats) -> Floats:
    poles, vectors = np.linalg.eig(A)
    sizes = np.maximum(np.abs(poles), INSIDE)
    if sizes.max(initial=INSIDE) == INSIDE:
        return A
    moved = poles * np.where(sizes > INSIDE, np.minimum(INSIDE, 1 / sizes) / sizes, 1.0)
    return np.asarray(((vectors * moved) @ np.linalg.pinv(vectors)).real)
