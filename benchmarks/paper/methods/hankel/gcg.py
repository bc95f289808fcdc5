"""GCG: min C‖W − Y‖_F² + λ‖W − Π(W)‖_F² + ½‖W‖_*, Y the Hankel matrix of the series, Π the projection on such matrices.

Generalised conditional gradient: add the leading singular pair of the gradient, with the best weights of it and of what
there was, then improve the factors of W = U Vᵀ by L-BFGS, with ½(‖U‖² + ‖V‖²) in place of ‖W‖_*. It ends when no pair
is worth its price, which is at the optimum, as the problem is convex. The denoised series are the means along the
antidiagonals of W, which is only nearly Hankel.

Y. Yu, X. Zhang, D. Schuurmans: Generalized conditional gradient for sparse estimation, 2014.

‖W‖_F² is a product of r × r matrices, and Y and Π(W) are Hankel, so nothing as large as W is made. λ is proportional to
C; its factor is the best of several on systems that are not in the study. C grows along the path, from the last
solution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from paper.methods.hankel.products import Bracket, adjoint, counts, singular_triplets, times
from rslm.runtime.types import Floats

NAME = "GCG"
HANKEL = 0.1  # λ / C; 1 and 10 have larger errors at the same rank
PRICE = 1e-3  # it ends when the leading singular value of the gradient is above ½ by this part at most
FALL = 1e-8  # or when the last atom has lowered the objective by this part at most
SMALL = 1e-5  # singular values of W below this part of the largest are no part of its rank
STEPS = 500  # of L-BFGS for one set of atoms
PROBES = 6  # values of C for one rank at most, if one of them had a rank that is small enough


@dataclass(frozen=True)
class Objective:
    """The smooth part F and its derivatives, for W = U Vᵀ."""

    y: Floats
    window: int
    C: float
    hankel: float = HANKEL

    @property
    def shape(self) -> tuple[int, int]:
        return self.window, len(self.y) - self.window + 1

    def means(self, U: Floats, V: Floats) -> Floats:
        """The series of Π(W)."""
        return adjoint(U, V) / counts(len(self.y), self.window)

    def smooth(self, U: Floats, V: Floats) -> float:
        occurs, h = counts(len(self.y), self.window), self.means(U, V)
        # W − Y is orthogonal in parts: within the Hankel matrices, and W − Π(W).
        outside = float(np.sum((U.T @ U) * (V.T @ V)) - occurs @ h**2)
        return self.C * float(occurs @ (h - self.y) ** 2 + (1 + self.hankel) * outside)

    def series_of_gradient(self, U: Floats, V: Floats) -> Floats:
        """∇F = 2 C (1 + λ/C) U Vᵀ − H of this."""
        return 2 * self.C * (self.y + self.hankel * self.means(U, V))

    def slope(self, U: Floats, V: Floats) -> float:
        """Of F at zero, along U Vᵀ."""
        return -2 * self.C * float(self.y @ adjoint(U, V))

    def inner(self, U: Floats, V: Floats, left: Floats, right: Floats) -> float:
        """⟨U Vᵀ, Q left rightᵀ⟩, Q the second derivative of F, which is constant."""
        occurs = counts(len(self.y), self.window)
        whole = float(np.sum((U.T @ left) * (V.T @ right)))
        hankel = float(occurs @ (self.means(U, V) * self.means(left, right)))
        return 2 * self.C * ((1 + self.hankel) * whole - self.hankel * hankel)

    def value(self, U: Floats, V: Floats) -> float:
        """With ½(‖U‖² + ‖V‖²) in place of the trace norm, which it equals when the factors are balanced."""
        return self.smooth(U, V) + 0.25 * float(np.sum(U**2) + np.sum(V**2))

    def value_and_gradient(self, x: Floats) -> tuple[float, Floats]:
        U, V = self.factors(x)
        p, k = self.series_of_gradient(U, V), 2 * self.C * (1 + self.hankel)
        of_U = k * U @ (V.T @ V) - times(p, V) + 0.5 * U
        of_V = k * V @ (U.T @ U) - times(p, U) + 0.5 * V
        return self.value(U, V), np.concatenate([of_U, of_V]).ravel()

    def factors(self, x: Floats) -> tuple[Floats, Floats]:
        both = x.reshape(sum(self.shape), -1)
        return both[: self.window], both[self.window :]

    def leading_pair(self, U: Floats, V: Floats) -> tuple[Floats, float, Floats]:
        """Of −∇F."""
        k = 2 * self.C * (1 + self.hankel)
        left, s, right = singular_triplets(self.series_of_gradient(U, V), self.window, 1, -k * U, V)
        return left, float(s[0]), right


def solve(
    problem: Objective, U: Floats, V: Floats, most: int, price: float = PRICE
) -> tuple[Floats, Floats, list[float]]:
    """Balanced factors of the solution and the objective after every atom; ends early with more than `most` atoms."""
    values: list[float] = []
    while True:
        if U.shape[1]:
            x = np.concatenate([U, V]).ravel()
            options: Any = {"maxiter": STEPS, "maxfun": 2 * STEPS, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-7}
            x = minimize(problem.value_and_gradient, x, jac=True, method="L-BFGS-B", options=options).x
            U, V = balanced(*problem.factors(x))
        values.append(problem.value(U, V))
        left, worth, right = problem.leading_pair(U, V)
        # An atom whose best weight is too small to count is dropped again; it would be found for ever.
        ended = len(values) > 1 and values[-2] - values[-1] <= FALL * values[-2]
        if ended or worth <= 0.5 * (1 + price) or U.shape[1] > most:
            return U, V, values
        U, V = with_atom(problem, U, V, left, right)


def with_atom(problem: Objective, U: Floats, V: Floats, left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """√a U and √b `left`, likewise V, for the a, b ≥ 0 that minimise F(a W + b left rightᵀ) + ½(a‖W‖_* + b)."""
    slope = 0.5 + problem.slope(left, right)
    if not U.shape[1]:
        b = -slope / problem.inner(left, right, left, right)
        return np.sqrt(b) * left, np.sqrt(b) * right
    cross, own = problem.inner(U, V, left, right), problem.inner(left, right, left, right)
    hessian = np.array([[problem.inner(U, V, U, V), cross], [cross, own]])
    slopes = np.array([0.25 * float(np.sum(U**2) + np.sum(V**2)) + problem.slope(U, V), slope])
    a, b = np.linalg.solve(hessian, -slopes)
    if min(a, b) <= 0:  # a = 1 and b = 0 after L-BFGS, where the pair is worth its price: so it is b that is positive
        a, b = 0.0, -slope / own
    return np.hstack([np.sqrt(a) * U, np.sqrt(b) * left]), np.hstack([np.sqrt(a) * V, np.sqrt(b) * right])


def balanced(U: Floats, V: Floats) -> tuple[Floats, Floats]:
    """Factors P √S, Q √S from the singular value decomposition of U Vᵀ, without what is no part of its rank."""
    (P, A), (Q, B) = np.linalg.qr(U), np.linalg.qr(V)
    left, s, right = np.linalg.svd(A @ B.T)
    keep = s > SMALL * s[0]
    return P @ left[:, keep] * np.sqrt(s[keep]), Q @ right[keep].T * np.sqrt(s[keep])


def path(y: Floats, window: int, ranks: tuple[int, ...]) -> dict[int, Floats]:
    """For every rank the series at a C whose solution has it; if none tried has it, the largest rank below it."""
    values = singular_triplets(y, window, max(ranks) + 1)[1]
    U: Floats = np.zeros((window, 0))
    V: Floats = np.zeros((len(y) - window + 1, 0))
    found: dict[int, Floats] = {}
    for rank in sorted(ranks):
        # Without λ, W has the singular values of Y less 1 / (4 C).
        search, best, tried = Bracket(4 * values[rank], 1.3), -1, 0
        while best < 0 or (best < rank and tried < PROBES):
            problem = Objective(y, window, 1 / search.next)
            left, right, _ = solve(problem, U, V, rank)
            if best < left.shape[1] <= rank:
                best, U, V = left.shape[1], left, right
                found[rank] = problem.means(U, V)
            search.tell(left.shape[1], rank)
            tried += 1
    return found
