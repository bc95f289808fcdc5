"""What methods for min ‖P_Ω(W) − Y‖² + μ‖W‖_* share: the point, its objective, when to end, singular triplets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from paper.observed import Entries
from rslm.runtime.types import Floats


class Point(NamedTuple):
    """W = P diag(s) Qᵀ with orthonormal P and Q, and W − Y at the observed places."""

    P: Floats
    s: Floats
    Q: Floats
    residual: Floats

    @classmethod
    def of(cls, data: Entries, P: Floats, s: Floats, Q: Floats) -> Point:
        return cls(P, s, Q, (data.at(P * s, Q) if s.size else 0.0) - data.y)

    @classmethod
    def zero(cls, data: Entries) -> Point:
        d, T = data.shape
        return cls.of(data, np.zeros((d, 0)), np.zeros(0), np.zeros((T, 0)))

    @property
    def left(self) -> Floats:
        return self.P * np.sqrt(self.s)

    @property
    def right(self) -> Floats:
        return self.Q * np.sqrt(self.s)

    def objective(self, weight: float) -> float:
        return float(self.residual @ self.residual + weight * self.s.sum())


class Plateau:
    """Says when the objective has stopped falling: by less than `tol` of its value in `span` iterations."""

    def __init__(self, tol: float, span: int) -> None:
        self.tol, self.span = tol, span
        self.values: list[float] = []

    def reached(self, value: float) -> bool:
        self.values.append(value)
        return len(self.values) > self.span and self.values[-1 - self.span] - value <= self.tol * value


def balanced(P: Floats, Q: Floats) -> tuple[Floats, Floats, Floats]:
    """The singular value decomposition of P Qᵀ for thin P and Q."""
    (P, R), (Q, S) = np.linalg.qr(P), np.linalg.qr(Q)
    A, s, Bt = np.linalg.svd(R @ S.T)
    return P @ A, s, Q @ Bt.T


def leading(
    data: Entries, values: Floats, left: Floats, right: Floats, start: Floats, wanted: int, tol: float
) -> tuple[Floats, Floats, Floats]:
    """The leading singular triplets of S + left @ rightᵀ, S with `values` at the observed places.

    Block power iteration with Rayleigh–Ritz from `start`, (T, block), until the `wanted` largest values change by at
    most `tol` of the largest. Iterates of a method differ little, so a warm start needs one or two passes where Lanczos
    starts anew. The others of the block are returned too: they make it converge faster, and the next warm start better.
    """
    Q = start
    for _ in range(50):
        P, R = np.linalg.qr(data.times(values, Q) + left @ (right.T @ Q))
        before = np.linalg.svd(R, compute_uv=False)
        Q, R = np.linalg.qr(data.transposed_times(values, P) + right @ (left.T @ P))
        A, s, Bt = np.linalg.svd(R)
        P, Q = P @ Bt.T, Q @ A
        if np.abs(s - before)[:wanted].max() <= tol * s[0]:
            break
    return P, s, Q
