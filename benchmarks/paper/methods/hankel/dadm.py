"""DADM: min ½‖y − b‖² + μ‖H(y)‖_*, H(y) the Hankel matrix of the series y.

The dual is min ½‖γ‖² − bᵀγ over γ = H*(Λ), ‖Λ‖₂ ≤ μ. The alternating direction method with multiplier y minimises the
augmented Lagrangian over γ, then over Λ with the proximal term that makes it a projection onto the ball of the spectral
norm, and moves y by 1.61 times the violated constraint. Λ is a dense matrix of the size of H(y).

M. Fazel, T. K. Pong, D. Sun, P. Tseng: Hankel matrix rank minimization with applications to system identification and
realization, 2013.

It starts from H(b / counts) with its singular values cut at μ, for which γ = H*(Λ) nearly holds, or from another μ,
instead of from zero, and has a constant penalty that was the best of several on systems of the size of D1 and D2: about
100 iterations instead of 400. The projection needs only the singular values above μ, from the Gram matrix. It ends at a
relative duality gap, with the dual point made feasible. The rank is the number of singular values that the last
projection has cut, which is that of H(y) in the limit; no tolerance is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from paper.methods.hankel.products import Bracket, adjoint, counts, matrix
from rslm.runtime.types import Floats

NAME = "DADM"
PENALTY = 0.05
STEP = 1.61  # of the multiplier; convergence is proved below (1 + √5) / 2
GAP = 2e-4  # relative; smaller ones change the third digit of an RMSE
EVERY = 10  # iterations between computations of the gap, which needs all singular values of a matrix
MOST = 100  # iterations for one μ
PROBES = 5  # values of μ for one rank at most, if one of them had a rank that is small enough
GUESS = 1.35  # μ relative to the singular value of H(b / counts) after the wanted rank


@dataclass
class State:
    """Of the iteration, to start from at another μ."""

    Lambda: Floats  #: dense
    sums: Floats  #: H*(Lambda)
    y: Floats  #: the multiplier
    rank: int = 0
    gap: float = np.inf

    def cut(self, mu: float) -> None:
        """Project Lambda onto the ball of radius μ."""
        squares, left = eigh(self.Lambda @ self.Lambda.T, subset_by_value=(mu * mu, np.inf))
        self.rank = len(squares)
        if self.rank:
            right = (self.Lambda.T @ left) * (1 - mu / np.sqrt(squares))
            self.Lambda -= left @ right.T
            self.sums = self.sums - adjoint(left, right)


def start(b: Floats, window: int, mu: float) -> State:
    weighted = b / counts(len(b), window)
    state = State(matrix(weighted, window).copy(), b, b)
    state.cut(mu)
    state.y = b - state.sums
    return state


def solve(b: Floats, window: int, mu: float, state: State, gap: float = GAP, most: int = MOST) -> Floats:
    """The series at one μ; changes `state`."""
    occurs = counts(len(b), window)
    proximal = 0.99 / occurs.max()  # below 1 / ‖H‖², as the proximal term must be positive
    for k in range(1, most + 1):
        gamma = (b - state.y + PENALTY * state.sums) / (1 + PENALTY)
        move = proximal / PENALTY * (state.y + PENALTY * (gamma - state.sums))
        state.Lambda += matrix(move, window)
        state.sums = state.sums + occurs * move
        state.cut(mu)
        state.y = state.y + STEP * PENALTY * (gamma - state.sums)
        if k % EVERY == 0:
            state.gap = relative_gap(b, window, mu, state.sums)
            if state.gap <= gap:
                break
    return b - state.sums


def objective(b: Floats, window: int, mu: float, y: Floats) -> float:
    H = matrix(y, window)
    values = np.linalg.eigvalsh(H @ H.T)
    return float(0.5 * np.sum((y - b) ** 2) + mu * np.sum(np.sqrt(np.maximum(values, 0.0))))


def relative_gap(b: Floats, window: int, mu: float, gamma: Floats) -> float:
    """Between y = b − γ and the dual value of γ, relative to the latter."""
    dual = float(b @ gamma - 0.5 * gamma @ gamma)
    return (objective(b, window, mu, b - gamma) - dual) / max(abs(dual), np.finfo(float).tiny)


def path(y: Floats, window: int, ranks: tuple[int, ...]) -> dict[int, Floats]:
    """For every rank the series at a μ whose solution has it; if none tried has it, the largest rank below it."""
    weighted = matrix(y / counts(len(y), window), window)
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(weighted @ weighted.T)[::-1], 0.0))
    found: dict[int, Floats] = {}
    state: State | None = None
    for rank in sorted(ranks, reverse=True):
        search, best, tried = Bracket(GUESS * values[rank], 1.2), -1, 0
        while best < 0 or (best < rank and tried < PROBES):
            state = state or start(y, window, search.next)
            series = solve(y, window, search.next, state)
            if best < state.rank <= rank:
                best, found[rank] = state.rank, series
            search.tell(state.rank, rank)
            tried += 1
    return found
