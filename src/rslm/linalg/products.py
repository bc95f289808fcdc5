"""Matrices of shape (d, T) that are given by their products with thin matrices and never formed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rslm.kernels import Columns
from rslm.runtime.types import Floats


class Products(Protocol):
    """A matrix S, given by its products."""

    def times(self, Y: Floats) -> Floats:
        """S Y for Y of shape (T, k)."""

    def transposed_times(self, X: Floats) -> Floats:
        """Sᵀ X for X of shape (d, k)."""


@dataclass(frozen=True)
class Sparse:
    """A sparse matrix."""

    entries: Columns
    values: Floats
    threads: int

    def times(self, Y: Floats) -> Floats:
        return self.entries.scatter(self.values, Y, self.threads)

    def transposed_times(self, X: Floats) -> Floats:
        return self.entries.gather(self.values, X, self.threads)


@dataclass(frozen=True)
class Quadratic:
    """−𝓛W for W = A Bᵀ and a penalty ½⟨W, 𝓛W⟩: the dual matrix of the penalty."""

    penalty: Any  #: with `times(A, B, Y)` and `transposed_times(A, B, X)`
    A: Floats
    B: Floats

    def times(self, Y: Floats) -> Floats:
        return np.asarray(-self.penalty.times(self.A, self.B, Y))

    def transposed_times(self, X: Floats) -> Floats:
        return np.asarray(-self.penalty.transposed_times(self.A, self.B, X))


@dataclass(frozen=True)
class LowRank:
    """A Bᵀ with thin A and B."""

    A: Floats
    B: Floats

    def times(self, Y: Floats) -> Floats:
        return np.asarray(self.A @ (self.B.T @ Y))

    def transposed_times(self, X: Floats) -> Floats:
        return np.asarray(self.B @ (self.A.T @ X))


@dataclass(frozen=True)
class ColumnScaled:
    """Another matrix with column t multiplied by scale[t]; `scale` is an array of shape (T, 1)."""

    matrix: Products
    scale: Floats

    def times(self, Y: Floats) -> Floats:
        return self.matrix.times(self.scale * Y)

    def transposed_times(self, X: Floats) -> Floats:
        return self.scale * self.matrix.transposed_times(X)
