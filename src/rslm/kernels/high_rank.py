"""Ranks above those of the compiled widths.

Factors of T systems of rank r have T r²/2 numbers, which for r = 256 is more than most data. `Unfactored` systems are
solved anew each time, every column in the cheapest of three ways: conjugate gradients, a factorisation of the r × r
system, or with few entries one of the n × n system of the dual; see native/wide.hpp. From the second solution on, the
factors of as many columns are kept as memory in proportion to the data allows. The other parts of an evaluation are
products with the sparse matrix, done for WIDTH coordinates at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rslm.kernels.scratch import scratch_like
from rslm.runtime.types import Floats, Indices64

if TYPE_CHECKING:
    from rslm.kernels.columns import Columns, Factors

WIDTH = 128  # the largest rank that the kernels are compiled for
KEPT = 16  # most numbers of factors, relative to the number of entries and that of elements of U and V


class Unfactored:
    """X_tᵀ diag(weight) X_t + ridge_t of every column, by its parts, which must not change once a system was solved."""

    data: None = None  #: in the place of the `Factors` that other kernels write

    def __init__(self, pattern: Columns, X: Floats, weight: Floats | None, ridge: Floats) -> None:
        self.pattern, self.X, self.weight, self.ridge = pattern, X, weight, ridge
        self.rank = int(X.shape[1])
        self._solved = 0  # how often
        self._rooms: Indices64 | None = None
        self._factors: Floats | None = None

    def solve(self, rhs: Floats, threads: int) -> Floats:
        """Solve the system of every column for its row of `rhs`."""
        if self._solved == 1:  # at many points only one is needed
            self._rooms = rooms(np.diff(self.pattern.indptr), self.pattern.shape[0], self.rank)
            self._factors = np.empty(self._rooms[-1])
        solution, rhs = np.empty(rhs.shape), np.ascontiguousarray(rhs, dtype=np.float64)
        self.pattern._native.solve_systems(
            self.X, self.weight, self.ridge, self._rooms, self._factors, self._solved > 1, rhs, solution, threads
        )
        self._solved += 1
        return solution

    def leverages(self, threads: int) -> Floats:
        """x_iᵀ M_t⁻¹ x_i of every entry (i, t)."""
        out = np.empty(self.pattern.entries)
        self.pattern._native.leverages(self.X, self.weight, self.ridge, out, threads)
        return out


def rooms(counts: Indices64, rows: int, rank: int) -> Indices64:
    """Where the factor of every column begins, for columns of these `counts` of entries; without room for all.

    A factor saves time in proportion to the larger of n and r for each of its numbers, so long columns come first.
    """
    blocks = -(-np.minimum(counts, rank) // 8)
    sizes = 32 * blocks * (blocks + 1) + 8 * blocks  # as `Triangle::stored` in native/wide.hpp
    order = np.argsort(-counts, kind="stable")
    most = KEPT * (int(counts.sum()) + (rows + len(counts)) * rank)
    sizes[order[np.cumsum(sizes[order]) > most]] = 0
    return np.concatenate([[0], np.cumsum(sizes)])


def parts(rank: int) -> Iterator[slice]:
    """Ranges of at most WIDTH coordinates."""
    for start in range(0, rank, WIDTH):
        yield slice(start, min(start + WIDTH, rank))


def solved(
    c: Columns, y: Floats, U: Floats, systems: Factors | Unfactored, threads: int, weight: Floats | None, pinned: bool
) -> Floats:
    """V of the ridge regressions of all columns; if `pinned`, the last coordinate is 1."""
    target = y
    if pinned:
        target = scratch_like(y, np.float64)
        np.subtract(y, U[c.index, -1], out=target)
    rhs = c.gather(target if weight is None else target * weight, U, threads)
    V = systems.solve(rhs, threads)
    if pinned:
        V[:, -1] = 1.0
    return V


def errors(
    c: Columns, y: Floats, U: Floats, V: Floats, threads: int, weight: Floats | None, residual: Floats
) -> tuple[float, Floats]:
    """Write weight · (y − X v) to `residual`; returns Σ weight (y − X v)², and the residual in double precision."""
    error = c.predict(U, V, threads)
    np.subtract(y, error, out=error)
    s = error if weight is None else np.multiply(error, weight, out=scratch_like(error))
    residual[:] = s
    blocks = (slice(c.indptr[first], c.indptr[last]) for first, last in c.blocks())
    squares = math.fsum(float(np.einsum("p,p->", s[at], error[at])) for at in blocks)
    return squares, s


class Moved(NamedTuple):
    """Derivatives along dU, if v minimises at every U."""

    V: Floats  #: v̇
    change: Floats  #: weight · (dX v + X v̇), which is −ż, at every entry


def moved(
    c: Columns,
    z: Floats,
    weight: Floats | None,
    U: Floats,
    V: Floats,
    systems: Factors | Unfactored,
    dU: Floats,
    threads: int,
    dV: Floats | None,
) -> Moved:
    """As `Columns.weighted_derivative`, before the sums over columns."""
    change = c.predict(dU, V, threads)
    rhs = c.gather(z, dU, threads) - c.gather(change if weight is None else change * weight, U, threads)
    v = systems.solve(rhs if dV is None else rhs + dV, threads)
    if dV is not None:
        dV[:] = v
    change += c.predict(U, v, threads)
    if weight is not None:
        change *= weight
    return Moved(v, change)
