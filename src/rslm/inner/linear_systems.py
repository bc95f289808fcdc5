"""Two ways to solve A x = b with A = 2C M*M + P*Θ⁻¹P, and Θ = UUᵀ + δI itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded

from rslm.runtime.interrupts import look
from rslm.runtime.types import Floats
from rslm.structures import Hankel, LinearStructure

WIDEST = 200  # window up to which the bands of a Hankel system are factorised; they take window × size numbers
MOST_STEPS = 2000  # of conjugate gradients
EXACT, ROUGH = 1e-13, 1e-8  # relative residuals at which they may end
BESIDE_GRADIENT = 1e-6  # the same, in relative gradients of the outer problem


class Theta:
    """UUᵀ + δI by the singular vectors of U = Q diag(s) Rᵀ.

    Θ⁻¹ is 1/δ outside the span of Q and 1/(s² + δ) within. As (I − U K Uᵀ)/δ it would lose all digits where U has small
    singular values next to large ones, which it has at most optima.
    """

    def __init__(self, U: Floats, delta: float) -> None:
        self.U, self.delta = U, delta
        self.Q, s, Rt = np.linalg.svd(U, full_matrices=False)
        self.inverses: Floats = 1.0 / (s**2 + delta)
        self.within: Floats = 1.0 - delta * self.inverses  #: Θ⁻¹ = (I − Q diag(within) Qᵀ)/δ
        self.to_V: Floats = (s * self.inverses)[:, None] * Rt  #: V = P(w)ᵀQ times this
        self.UK: Floats = self.Q @ self.to_V
        self.trace = float(s @ s) + delta * len(U)

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
    def solve(self, b: Floats, start: Floats | None = None) -> Floats: ...


class Banded:
    """The system of a Hankel structure whose samples are observed: A has bands as wide as the window.

    A[k, k + o] is the sum of Θ⁻¹[i, i + o] over all windows that hold both samples, a difference of running sums along
    the diagonals of Θ⁻¹.
    """

    def __init__(self, structure: Hankel, of_loss: Floats, theta: Theta) -> None:
        d, n = structure.window, structure.samples
        sums = np.zeros((d, d + 1))  # row o holds the running sums of diagonal o
        padded = np.concatenate([theta.solve(np.eye(d)), np.zeros((d, d))], axis=1)
        steps = (padded.strides[1], padded.strides[0] + padded.strides[1])
        np.cumsum(np.lib.stride_tricks.as_strided(padded, (d, d), steps), axis=1, out=sums[:, 1:])
        shared = np.empty((d, n), order="F")
        shared[:] = sums[:, -1:]
        shared[:, :d] = sums[:, 1:]  # at both ends not all windows that could hold a sample exist
        shared[:, structure.windows :] -= sums[:, 1:d]
        beyond = np.arange(d)[:, None] + np.arange(n - d, n)[None, :] >= n
        shared[:, n - d :][beyond] = 0.0
        self._factors: list[Floats] = []
        by_channel = of_loss.reshape(structure.channels, n)
        for c in range(structure.channels):
            look()
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
    """Any such system, by conjugate gradients with a diagonal preconditioner."""

    def __init__(
        self,
        structure: LinearStructure,
        of_loss: Callable[[Floats], Floats],
        diagonal: Floats,
        theta: Theta,
        relative_gradient: float,
    ) -> None:
        of_penalty = penalty_product(structure, theta)

        def product(x: Floats) -> Floats:
            return of_loss(x) + of_penalty(x)

        self._product = product
        within = float(theta.within.sum()) / len(theta.U)
        of_structure = (1.0 - within) / theta.delta  # of Θ⁻¹, on the average
        self._diagonal: Floats = diagonal + structure.counts * of_structure
        self._tolerance = min(max(BESIDE_GRADIENT * relative_gradient, EXACT), ROUGH)

    def solve(self, b: Floats, start: Floats | None = None) -> Floats:
        x = np.zeros_like(b) if start is None else start.copy()
        residual = b if start is None else b - self._product(x)
        target = self._tolerance * float(np.linalg.norm(b))
        z = residual / self._diagonal
        direction, rz = z, float(residual @ z)
        for _ in range(MOST_STEPS):
            if not float(np.linalg.norm(residual)) > target:
                break
            look()
            product = self._product(direction)
            alpha = rz / float(direction @ product)
            x = x + alpha * direction
            residual = residual - alpha * product
            z = residual / self._diagonal
            rz, before = float(residual @ z), rz
            direction = z + (rz / before) * direction
        return x
