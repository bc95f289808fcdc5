"""Two solvers for A x = b with A = C M*D M + P*Θ⁻¹P, and the matrix Θ = UUᵀ + δI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded

from rslm.linalg.conjugate_gradients import conjugate_gradients
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats
from rslm.structures import Hankel, LinearStructure

WIDEST = 200  # largest window for which a Hankel system is factorised; its bands need window × size numbers
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


def penalty_product(structure: LinearStructure, theta: Theta) -> Callable[[Floats], Floats]:
    """x ↦ P*(Θ⁻¹P(x))."""
    left, right = structure.left(theta.Q * theta.within), structure.left(theta.Q)

    def product(x: Floats) -> Floats:
        inside = structure.adjoint(left, structure.transposed_times(x, right))
        return (structure.gram(x) - inside) / theta.delta

    return product


class System(Protocol):
    """A x = b."""

    def solve(self, b: Floats, start: Floats | None = None) -> Floats: ...


class Banded:
    """The system of a Hankel structure whose samples are observed: A is banded, and as wide as the window.

    A[k, k + o] is the sum of Θ⁻¹[i, i + o] over all windows that contain both samples, which is a difference of
    cumulative sums along the diagonals of Θ⁻¹.
    """

    def __init__(self, structure: Hankel, of_loss: Floats, theta: Theta) -> None:
        d, n = structure.window, structure.samples
        sums = np.zeros((d, d + 1))  # row o holds the cumulative sums of diagonal o
        padded = np.concatenate([theta.solve(np.eye(d)), np.zeros((d, d))], axis=1)
        steps = (padded.strides[1], padded.strides[0] + padded.strides[1])
        np.cumsum(np.lib.stride_tricks.as_strided(padded, (d, d), steps), axis=1, out=sums[:, 1:])
        shared = np.empty((d, n), order="F")
        shared[:] = sums[:, -1:]
        shared[:, :d] = sums[:, 1:]  # fewer windows contain a sample near either end of the series
        shared[:, structure.windows :] -= sums[:, 1:d]
        outside = np.arange(d)[:, None] + np.arange(n - d, n)[None, :] >= n
        shared[:, n - d :][outside] = 0.0
        self._factors: list[Floats] = []
        by_channel = of_loss.reshape(structure.channels, n)
        for c in range(structure.channels):
            raise_if_stopped()
            if c and np.array_equal(by_channel[c], by_channel[c - 1]):  # the same samples are missing
                self._factors.append(self._factors[-1])
                continue
            bands = shared if structure.channels == 1 else shared.copy(order="F")
            bands[0] += by_channel[c]
            self._factors.append(cholesky_banded(bands, lower=True, overwrite_ab=True, check_finite=False))

    def solve(self, b: Floats, start: Floats | None = None) -> Floats:
        pieces = b.reshape(len(self._factors), -1)
        solved = [
            cho_solve_banded((f, True), x, check_finite=False) for f, x in zip(self._factors, pieces, strict=True)
        ]
        return np.concatenate(solved)


class Iterative:
    """Any such system, solved by conjugate gradients with a diagonal preconditioner."""

    def __init__(self, product: Callable[[Floats], Floats], diagonal: Floats, relative_gradient: float) -> None:
        self._product, self._diagonal = product, diagonal
        self._tolerance = min(max(OF_GRADIENT * relative_gradient, EXACT), ROUGH)

    def solve(self, b: Floats, start: Floats | None = None) -> Floats:
        def precondition(x: Floats) -> Floats:
            return x / self._diagonal

        return conjugate_gradients(self._product, b, precondition, tol=self._tolerance, most=MOST_STEPS, start=start)
