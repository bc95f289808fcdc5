"""Systems A x = b with A = C M*D M + P*Θ⁻¹P, solved by conjugate gradients, and the matrix Θ = UUᵀ + δI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from rslm.linalg.conjugate_gradients import conjugate_gradients
from rslm.runtime.types import Floats
from rslm.structures import LinearStructure

Map = Callable[[Floats], Floats]

MOST_STEPS = 2000  # of conjugate gradients
EXACT, ROUGH = 1e-13, 1e-8  # smallest and largest tolerance for their relative residual
OF_GRADIENT = 1e-6  # between the two: the tolerance divided by the relative gradient of the outer problem


class Theta:
    """Θ = UUᵀ + δI, represented by the singular vectors of U = Q diag(s) Rᵀ.

    Θ⁻¹ is 1/δ outside the span of Q and 1/(s² + δ) within. Computed as (I − U K Uᵀ)/δ it would lose all digits where U
    has both large and small singular values, as at most optima.
    """

    def __init__(self, U: Floats, delta: float) -> None:
        self.U, self.delta = U, delta
        self.Q, s, Rt = np.linalg.svd(U, full_matrices=False)
        self.inverses: Floats = 1.0 / (s**2 + delta)
        self.within: Floats = 1.0 - delta * self.inverses  #: Θ⁻¹ = (I − Q diag(within) Qᵀ)/δ
        self.to_V: Floats = (s * self.inverses)[:, None] * Rt  #: V = P(w)ᵀQ times this
        self.UK: Floats = self.Q @ self.to_V
        self.trace = float(s @ s) + delta * len(U)
        self.average = (1.0 - float(self.within.sum()) / len(U)) / delta  #: mean of the diagonal of Θ⁻¹

    def solve(self, X: Floats) -> Floats:
        """Θ⁻¹X."""
        along = self.Q.T @ X
        return np.asarray((X - self.Q @ along) / self.delta + self.Q @ (self.inverses[:, None] * along))


def penalty_product(structure: LinearStructure, theta: Theta) -> Map:
    """x ↦ P*(Θ⁻¹P(x))."""
    left, right = structure.left(theta.Q * theta.within), structure.left(theta.Q)

    def product(x: Floats) -> Floats:
        inside = structure.adjoint(left, structure.transposed_times(x, right))
        return (structure.gram(x) - inside) / theta.delta

    return product


class System(Protocol):
    """A x = b."""

    def solve(self, b: Floats, start: Floats | None = None) -> Floats: ...


class Iterative:
    """A system that is given by its products, solved by conjugate gradients with a preconditioner."""

    def __init__(self, product: Map, precondition: Map, relative_gradient: float) -> None:
        self._product, self._precondition = product, precondition
        self._tolerance = min(max(OF_GRADIENT * relative_gradient, EXACT), ROUGH)

    def solve(self, b: Floats, start: Floats | None = None) -> Floats:
        tol, most = self._tolerance, MOST_STEPS
        return conjugate_gradients(self._product, b, self._precondition, tol=tol, most=most, start=start)
