"""Convex multi-task feature learning (MTFL).

    minimise over W, b and D   Σ (y_i − x_i·w_t − b_t)² + weight Σ_t w_tᵀ D⁻¹ w_t,   D positive definite, tr D = 1

At the best D this is Σ (y_i − x_i·w_t − b_t)² + weight ‖W‖_*²: the problem of rslm with C = 1 / (2 weight) and no limit
on the rank. W and D are found in turn: a regression for every task, then D = (WᵀW + εI)^½ over its trace, where a
task is a row of W. ε keeps D positive definite.

Argyriou, Evgeniou, Pontil: Convex multi-task feature learning, Machine Learning 73, 2008 (algorithm 1).

Two things differ. Their ε is constant; here it falls, because with a small one D turns slowly, and after 300 steps the
objective is still up to 0.4 % above the optimum on School. They stop when W hardly changes; here the duality gap is
computed, so that it is known how far the optimum can be. They leave intercepts open: here every task has its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rslm.runtime.types import Floats, Indices64

NAME = "MTFL"
WEIGHTS = tuple(2.0**k for k in range(-8, 25))  #: those of the paper
COLD = np.geomspace(0.1, 1e-5, 300)  #: √ε relative to ‖W‖_*, step by step, from a D that says nothing
WARM = np.geomspace(0.03, 1e-6, 200)  #: and from that of a similar weight
SMALL = 1e-4  # √ε from which on singular values that vanish are below those that count as zero
CHECK = 5  # steps between two looks at the gap


@dataclass(frozen=True)
class Moments:
    """All that the objective depends on: sums over the rows of every task, about their means."""

    mean_x: Floats  #: (T, d)
    mean_y: Floats  #: (T,); that of all targets for a task without rows
    grams: Floats  #: Xᵀ X of every task, (T, d, d)
    rights: Floats  #: Xᵀ y, (T, d)
    squares: float  #: yᵀ y of all rows

    @classmethod
    def of(cls, X: Floats, y: Floats, tasks: Indices64, T: int) -> Moments:
        rows = [np.flatnonzero(tasks == t) for t in range(T)]
        mean_x = np.stack([X[i].mean(axis=0) if len(i) else np.zeros(X.shape[1]) for i in rows])
        mean_y = np.array([y[i].mean() if len(i) else y.mean() for i in rows])
        X, y = X - mean_x[tasks], y - mean_y[tasks]
        grams, rights = np.stack([X[i].T @ X[i] for i in rows]), np.stack([X[i].T @ y[i] for i in rows])
        return cls(mean_x, mean_y, grams, rights, float(y @ y))

    def intercepts(self, W: Floats) -> Floats:
        return np.asarray(self.mean_y - np.einsum("td,td->t", self.mean_x, W))

    def errors(self, W: Floats) -> tuple[float, Floats]:
        """The sum of squared errors e, and Xᵀ e of every task."""
        rest = self.rights - (self.grams @ W[:, :, None])[:, :, 0]
        return self.squares - float(np.sum((self.rights + rest) * W)), rest

    def bounds(self, W: Floats, weight: float) -> tuple[float, float]:
        """The objective of W, and a number that no objective is below.

        The dual is 2 yᵀz − |z|² − σ₁(Xᵀz)² / weight, here at the best multiple of the errors of W.
        """
        squares, rest = self.errors(W)
        primal = squares + weight * float(np.linalg.norm(W, "nuc")) ** 2
        product = self.squares - float(np.sum(self.rights * W))  # yᵀ e
        return primal, max(product, 0.0) ** 2 / (squares + float(np.linalg.norm(rest, 2)) ** 2 / weight)


@dataclass(frozen=True)
class Step:
    W: Floats  #: (T, d)
    D: Floats  #: (d, d), what follows from W
    epsilon: float  #: with this ε


def rank(W: Floats) -> int:
    """The alternation leaves no exact zeros: singular values below a thousandth of the largest count as such."""
    return int(np.linalg.matrix_rank(W, 1e-3 * np.linalg.norm(W, 2)))


def start(d: int) -> Floats:
    return np.eye(d) / d


def regressions(data: Moments, weight: float, D: Floats) -> Floats:
    """The w_t that minimise |y_t − X_t w|² + weight wᵀ D⁻¹ w, by systems that do not suffer from a small D."""
    T, d = data.rights.shape
    root = np.linalg.cholesky(D)
    half = (data.grams.reshape(-1, d) @ root).reshape(T, d, d).transpose(0, 2, 1)
    systems = (half.reshape(-1, d) @ root).reshape(T, d, d) + weight * np.eye(d)
    return np.asarray(np.linalg.solve(systems, (data.rights @ root)[:, :, None])[:, :, 0] @ root.T)


def alternate(data: Moments, weight: float, D: Floats, floors: Floats) -> Iterator[Step]:
    """Step by step, with √ε at most each of `floors` times ‖W‖_*.

    ε never grows, so |errors|² + weight tr D⁻¹(WᵀW + εI) falls with every step.
    """
    epsilon = np.inf
    for floor in floors:
        W = regressions(data, weight, D)
        squares, vectors = np.linalg.eigh(W.T @ W)
        squares = np.maximum(squares, 0.0)
        epsilon = min(epsilon, (floor * float(np.sqrt(squares).sum())) ** 2)
        values = np.sqrt(squares + max(epsilon, np.finfo(float).tiny))  # W may be 0
        D = vectors * (values / values.sum()) @ vectors.T
        yield Step(W, D, epsilon)


def fit(data: Moments, weight: float, D: Floats, floors: Floats, tol: float = 1e-3) -> Step:
    """Alternate from D until the gap is at most `tol` times what W gains over 0, or to the end of `floors`."""
    for k, step in enumerate(alternate(data, weight, D, floors)):
        if k % CHECK == 0 and floors[k] <= SMALL:
            primal, dual = data.bounds(step.W, weight)
            if primal - dual <= tol * (data.squares - dual):
                break
    return step


def path(data: Moments, weights: Sequence[float] = WEIGHTS, floors: Floats = WARM) -> list[Step]:
    """The answers of rising weights, each from the D of the one before: D has to lose directions, not to find them."""
    D, found = start(data.rights.shape[1]), []
    for weight in weights:
        found.append(fit(data, weight, D, floors))
        D = found[-1].D
    return found
