"""A sparse matrix by columns, and the kernels that process all its columns in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rslm.kernels import _native, high_rank
from rslm.kernels.arrays import integers, matrix
from rslm.kernels.elementwise import BoxNumbers
from rslm.kernels.feature_rows import FeatureRows
from rslm.kernels.high_rank import WIDTH, Unfactored
from rslm.kernels.pieces import BoxSolved, Piece
from rslm.kernels.scratch import scratch_like
from rslm.runtime.types import Floats, Indices64

BLOCK = 1 << 21  # entries
LANES = 8  # columns whose triangular factors are interleaved


@dataclass(frozen=True)
class Factors:
    """Triangular factors of one rank × rank system per column, in a layout that only the kernels know."""

    data: Floats
    columns: int
    rank: int

    @classmethod
    def scratch(cls, columns: int, rank: int, used: Systems | None = None) -> Factors:
        """Memory for factors: that of `used`, which are no longer needed, if they have the same shape."""
        if used is not None and used.data is not None and (used.columns, used.rank) == (columns, rank):
            return used
        return cls(np.empty(-(-columns // LANES) * LANES * rank * (rank + 1) // 2), columns, rank)

    @classmethod
    def of(cls, systems: Floats, threads: int) -> Factors:
        """Factors of given symmetric, positive semidefinite systems (columns, rank, rank)."""
        columns, rank, _ = systems.shape
        try:
            roots = np.linalg.cholesky(systems)
        except np.linalg.LinAlgError:  # singular up to rounding
            values, vectors = np.linalg.eigh(systems)
            roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        # A system is the sum of r rᵀ over the columns r of its root.
        parts = Columns(np.arange(columns + 1) * rank, np.arange(columns * rank, dtype=np.int32), columns * rank)
        rows = roots.transpose(0, 2, 1).reshape(columns * rank, rank)
        traces = np.trace(systems, axis1=1, axis2=2)
        least = np.maximum(
            np.finfo(float).eps * traces, np.finfo(float).tiny
        )  # so that the kernel's pivots are positive
        return parts.factorise(rows, least, threads)

    def pin(self, inverse: float) -> None:
        """Decouple the last coordinate from all others, with this element of the inverse diagonals.

        0 keeps the last coordinate of every solution at 0.
        """
        packed = self.data.reshape(-1, self.rank * (self.rank + 1) // 2, LANES)
        packed[:, np.cumsum(np.arange(self.rank, 0, -1)) - 1] = 0.0
        packed[:, -1] = inverse

    def solve(self, rhs: Floats, threads: int) -> Floats:
        """Solve the system of every column for its row of `rhs`."""
        return self._solved(rhs, threads, half=False)

    def back_substitute(self, rhs: Floats, threads: int) -> Floats:
        """Solve the upper triangle R of every column for its row of `rhs`, where RᵀR is its system.

        Of independent standard normal numbers, this makes normal vectors with the inverse of the system as covariance.
        """
        return self._solved(rhs, threads, half=True)

    def _solved(self, rhs: Floats, threads: int, *, half: bool) -> Floats:
        solution = np.empty((self.columns, self.rank))
        _native.solve(half, self.data, np.ascontiguousarray(rhs, dtype=np.float64), solution, threads)
        return solution


Systems = Factors | Unfactored


@dataclass(frozen=True)
class Solved:
    """Results of the ridge regressions of all columns: v_t minimises Σ weight (y_t − X_t v)² + ridge_t |v|²."""

    squares: float  #: Σ weight (y − X v)²
    V: Floats  #: (columns, rank)
    residual: Floats  #: weight · (y − X v) at every entry, in the precision of y
    by_rows: Floats  #: (rows, rank): row i is Σ_t residual_it v_t
    factors: Systems  #: X_tᵀ diag(weight) X_t + ridge_t of every column


class Columns:
    """The sparsity pattern of a rows × columns matrix in compressed columns.

    The order of sums over columns is fixed by the pattern, so results do not depend on `threads`.
    Only one Python thread at a time may use an object, except for the methods that work on pieces.
    """

    def __init__(self, indptr: NDArray[np.integer[Any]], index: NDArray[np.integer[Any]], rows: int) -> None:
        self.indptr = integers(indptr, np.int64)
        self.index = integers(index, np.int32)
        self._native = _native.Columns(self.indptr, self.index, rows)

    @property
    def shape(self) -> tuple[int, int]:
        return self._native.rows, self._native.columns

    @property
    def entries(self) -> int:
        return self._native.entries

    @property
    def shard_count(self) -> int:
        return self._native.shard_count

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Ranges of columns with at most BLOCK entries (or one column), so that temporary arrays are small."""
        first, columns = 0, self.shape[1]
        while first < columns:
            last = int(np.searchsorted(self.indptr, self.indptr[first] + BLOCK, side="right")) - 1
            last = min(max(last, first + 1), columns)
            yield first, last
            first = last

    def divided(self, values: Floats, weights: Floats | None) -> Floats:
        """The values of every column divided by the square root of its weight; as given where there are no weights."""
        if weights is None:
            return values
        out = scratch_like(values, np.float64)
        for start, end in self.blocks():
            at = slice(self.indptr[start], self.indptr[end])
            counts = np.diff(self.indptr[start : end + 1])
            np.multiply(values[at], np.repeat(1.0 / np.sqrt(weights[start:end]), counts), out=out[at])
        return out

    def places(self) -> tuple[Indices64, Indices64]:
        """Row and column of every entry."""
        return self.index.astype(np.int64), np.repeat(np.arange(self.shape[1]), np.diff(self.indptr))

    @cached_property
    def by_rows(self) -> Columns:
        """The transposed pattern; computed at first use."""

        def numbers(start: int, end: int) -> NDArray[np.int32]:
            return np.repeat(np.arange(start, end, dtype=np.int32), np.diff(self.indptr[start : end + 1]))

        return Columns(self._row_starts, self._in_row_order(scratch_like(self.index), numbers), self.shape[1])

    @cached_property
    def _row_starts(self) -> Indices64:
        """Where the entries of every row begin in `by_rows`, and where the last ones end."""
        counts = np.zeros(self.shape[0], dtype=np.int64)
        for start, end in self.blocks():
            counts += np.bincount(self.index[self.indptr[start] : self.indptr[end]], minlength=len(counts))
        return np.concatenate([[0], np.cumsum(counts)])

    def in_row_order(self, values: Floats) -> Floats:
        """The `values` of the entries in the order of `by_rows`; on disk if they are mapped from disk."""
        return self._in_row_order(
            scratch_like(values), lambda start, end: values[self.indptr[start] : self.indptr[end]]
        )

    def _in_row_order(self, out: NDArray[Any], values: Callable[[int, int], NDArray[Any]]) -> NDArray[Any]:
        """`out`, with the `values` of ranges of columns, one after the other, so that temporary arrays are small."""
        following = self._row_starts[:-1].copy()  # where the next entry of every row is written
        for start, end in self.blocks():
            indptr = self.indptr[start : end + 1]
            parts = values(start, end), self.index[indptr[0] : indptr[-1]], (indptr - indptr[0]).astype(np.int32)
            rows = sparse.csc_array(parts, shape=(self.shape[0], end - start)).tocsr()
            counts = np.diff(rows.indptr)
            out[np.repeat(following - rows.indptr[:-1], counts) + np.arange(len(rows.data))] = rows.data
            following += counts
        return out

    @cached_property
    def row_order(self) -> NDArray[np.int64]:
        """The positions of the entries of `by_rows` in this pattern."""
        numbers = sparse.csc_array((np.arange(self.entries), self.index, self.indptr), shape=self.shape)
        return np.asarray(numbers.tocsr().data)

    def evaluate(
        self,
        y: Floats,
        U: Floats,
        ridge: Floats,
        threads: int,
        scratch: Solved | None = None,
        *,
        weight: Floats | None = None,
        pinned: bool = False,
        single: bool = False,
    ) -> Solved:
        """Solve the ridge regressions of all columns on the rows of `U`.

        `ridge` has one number per column, or one per column and coordinate; an infinite one keeps a coordinate at 0. If
        `pinned`, the last coordinate of every v is 1 instead, and its ridge should be infinite. `weight` has one number
        per entry. `scratch` is an earlier result that is no longer needed: its residual and factors are overwritten.

        If `single`, products and residuals are computed in single precision, and sums of many of them in double
        precision: the result has about six correct digits, and takes half of the time. Not above rank 128.
        """
        rows, columns = self.shape
        rank = U.shape[1]
        if rank > WIDTH:
            systems = Unfactored(self, matrix(U), weight, ridge)
            V = high_rank.solved(self, y, U, systems, threads, weight, pinned)
            squares, residual, by_rows = self.residuals(y, U, V, threads, _residual_of(scratch, y), weight=weight)
            return Solved(squares, V, residual, by_rows, systems)
        residual, factors = _scratch_of(scratch, y, columns, rank)
        V, by_rows = np.empty((columns, rank)), np.empty((rows, rank))
        squares = self._native.evaluate(
            y, weight, matrix(U), ridge, pinned, single, V, factors.data, residual, by_rows, threads
        )
        return Solved(squares, V, residual, by_rows, factors)

    def regress(
        self,
        y: Floats,
        U: Floats,
        ridge: Floats,
        threads: int,
        scratch: Factors | None = None,
        *,
        weight: Floats | None = None,
        pinned: bool = False,
    ) -> tuple[Floats, Factors]:
        """The first half of `evaluate`: V and the factors; `scratch` are factors that are no longer needed."""
        if U.shape[1] > WIDTH:
            factors = self.factorise(U, ridge, threads, weight, scratch)
            return high_rank.solved(self, y, U, factors, threads, weight, pinned), factors
        V = np.empty((self.shape[1], U.shape[1]))
        factors = Factors.scratch(*V.shape, scratch)
        self._native.regress(y, weight, matrix(U), ridge, pinned, V, factors.data, threads)
        return V, factors

    def residuals(
        self,
        y: Floats,
        U: Floats,
        V: Floats,
        threads: int,
        scratch: Floats | None = None,
        *,
        weight: Floats | None = None,
    ) -> tuple[float, Floats, Floats]:
        """The second half of `evaluate` for any V: squares, residual (in `scratch`, if given) and by_rows."""
        residual = scratch_like(y) if scratch is None else scratch
        if U.shape[1] > WIDTH:
            squares, s = high_rank.errors(self, y, U, V, threads, weight, residual)
            return squares, residual, self.scatter(s, V, threads)
        by_rows = np.empty(U.shape)
        squares = self._native.residuals(y, weight, matrix(U), matrix(V), residual, by_rows, threads)
        return squares, residual, by_rows

    def derivative(
        self,
        solved: Solved,
        U: Floats,
        dU: Floats,
        threads: int,
        weight: Floats | None = None,
        *,
        single: bool = False,
    ) -> Floats:
        """The directional derivative of −`by_rows` when U moves along `dU`; `weight` and `single` as in `evaluate`."""
        return self.weighted_derivative(
            solved.residual, weight, U, solved.V, solved.factors, dU, threads, single=single
        )

    def weighted_derivative(
        self,
        z: Floats,
        weight: Floats | None,
        U: Floats,
        V: Floats,
        factors: Systems,
        dU: Floats,
        threads: int,
        dV: Floats | None = None,
        *,
        single: bool = False,
    ) -> Floats:
        """The directional derivative of −`scatter(z, V)` along `dU`, where ż = −weight · (dX v + X v̇).

        `factors` are those of X_tᵀ diag(weight) X_t + ridge_t. If `dV` is given, it is added to the right-hand sides
        of the systems for v̇, and overwritten by v̇.
        """
        if factors.data is None or factors.rank > WIDTH:
            moved = high_rank.moved(self, z, weight, U, V, factors, dU, threads, dV)
            return self.scatter(moved.change, V, threads) - self.scatter(z, moved.V, threads)
        out = np.empty(U.shape)
        self._native.derivative(z, weight, matrix(U), single, V, factors.data, matrix(dU), dV, out, threads)
        return out

    def evaluate_tasks(
        self,
        x: FeatureRows,
        y: Floats,
        U: Floats,
        ridge: Floats,
        threads: int,
        scratch: Solved | None = None,
        *,
        centred: bool = False,
        pinned: bool = False,
    ) -> Solved:
        """`evaluate` with the rows of x U instead of those of U; `by_rows` of the result is xᵀ times it, by features.

        If `centred`, the mean over a task is subtracted from its x U; y should have mean zero per task, too.
        """
        columns, rank = self.shape[1], U.shape[1]
        if rank > WIDTH:
            apart, F = self._entries_apart, self._lifted(x, U, centred)
            systems = Unfactored(apart, F, None, ridge)
            V = high_rank.solved(apart, y, F, systems, threads, None, pinned)
            squares, s = high_rank.errors(apart, y, F, V, threads, None, residual := scratch_like(y))
            return Solved(squares, V, residual, x.transposed_times(self.scatter(s, V, threads)), systems)
        residual, factors = _scratch_of(scratch, y, columns, rank)
        V, by_features = np.empty((columns, rank)), np.empty(U.shape)
        squares = self._native.evaluate_tasks(
            x._native, centred, y, matrix(U), ridge, pinned, V, factors.data, residual, by_features, threads
        )
        return Solved(squares, V, residual, by_features, factors)

    def derivative_tasks(
        self, x: FeatureRows, solved: Solved, U: Floats, dU: Floats, threads: int, *, centred: bool = False
    ) -> Floats:
        """The directional derivative of −`by_rows` of `evaluate_tasks` when U moves along `dU`."""
        if solved.factors.data is None:
            F, dF = solved.factors.X, self._lifted(x, dU, centred)
            apart = self._entries_apart
            moved = high_rank.moved(apart, solved.residual, None, F, solved.V, solved.factors, dF, threads, None)
            return x.transposed_times(
                self.scatter(moved.change, solved.V, threads) - self.scatter(solved.residual, moved.V, threads)
            )
        out = np.empty(U.shape)
        self._native.derivative_tasks(
            x._native, centred, solved.residual, matrix(U), solved.V, solved.factors.data, matrix(dU), out, threads
        )
        return out

    @cached_property
    def _entries_apart(self) -> Columns:
        """The pattern with a row of its own for every entry."""
        return Columns(self.indptr, np.arange(self.entries), self.entries)

    def _lifted(self, x: FeatureRows, U: Floats, centred: bool) -> Floats:
        """The rows of x U at the entries, without the mean of their task if `centred`."""
        F = x.times(U)[self.index]
        if centred:
            counts = np.diff(self.indptr)
            sums = self._entries_apart.gather(np.ones(self.entries), F, 1)
            F -= np.repeat(sums / np.maximum(counts, 1)[:, None], counts, axis=0)
        return F

    def predict_tasks(self, x: FeatureRows, U: Floats, V: Floats, threads: int) -> Floats:
        """x_iᵀ U v_t at every entry (i, t)."""
        if U.shape[1] > WIDTH:
            return self.predict(x.times(U), V, threads)
        prediction = np.empty(self.entries)
        self._native.predict_tasks(x._native, matrix(U), matrix(V), prediction, threads)
        return prediction

    def features_of_tasks(self, x: FeatureRows, z: Floats, threads: int) -> Floats:
        """X_tᵀ z_t of every column, (columns, features)."""
        by_columns = np.empty((self.shape[1], x.features))
        self._native.features_of_tasks(x._native, z, by_columns, threads)
        return by_columns

    def factorise(
        self,
        X: Floats,
        ridge: Floats,
        threads: int,
        weight: Floats | None = None,
        scratch: Factors | None = None,
        more: tuple[Columns, Floats] | None = None,
    ) -> Factors:
        """Factors of X_tᵀ diag(weight) X_t + ridge_t for every column, where X_t are the rows of X at its entries.

        `more` are further entries of the same columns with their weights, which are added to the sums.
        """
        factors = Factors.scratch(self.shape[1], X.shape[1], scratch)
        entries, their_weight = (None, None) if more is None else (more[0]._native, more[1])
        self._native.factorise(matrix(X), weight, entries, their_weight, ridge, factors.data, threads)
        return factors

    def systems(
        self, X: Floats, ridge: Floats, threads: int, weight: Floats | None = None, scratch: Systems | None = None
    ) -> Systems:
        """The same for solutions alone: with factors, unless at a high rank they would take too much memory."""
        systems = self.new_systems(X, ridge, weight, scratch)
        if systems.data is not None:
            self._native.factorise(matrix(X), weight, None, None, ridge, systems.data, threads)
        return systems

    def new_systems(self, X: Floats, ridge: Floats, weight: Floats | None, scratch: Systems | None = None) -> Systems:
        """Unfactored systems, or memory for factors that `newton_step` writes."""
        if X.shape[1] > WIDTH:
            return Unfactored(self, matrix(X), weight, ridge)
        return Factors.scratch(self.shape[1], X.shape[1], scratch)

    def scatter(self, s: Floats, V: Floats, threads: int) -> Floats:
        """S V for the sparse matrix S with the values `s`: row i is Σ_t s_it v_t."""
        if V.shape[1] > WIDTH:
            return np.hstack([self.scatter(s, V[:, at], threads) for at in high_rank.parts(V.shape[1])])
        by_rows = np.empty((self.shape[0], V.shape[1]))
        self._native.scatter(s, matrix(V), by_rows, threads)
        return by_rows

    def gather(self, s: Floats, X: Floats, threads: int) -> Floats:
        """Sᵀ X for the sparse matrix S with the values `s`: row t is Σ_i s_it x_i."""
        if X.shape[1] > WIDTH:
            return np.hstack([self.gather(s, X[:, at], threads) for at in high_rank.parts(X.shape[1])])
        by_columns = np.empty((self.shape[1], X.shape[1]))
        self._native.gather(s, matrix(X), by_columns, threads)
        return by_columns

    def grams(self, X: Floats, threads: int, weight: Floats | None = None) -> Floats:
        """X_tᵀ diag(weight) X_t of every column, (columns, rank, rank)."""
        grams = np.empty((self.shape[1], X.shape[1], X.shape[1]))
        self._native.grams(matrix(X), weight, grams, threads)
        return grams

    def solve_box(
        self,
        y: Floats,
        U: Floats,
        c: Floats,
        box: BoxNumbers,
        dual: Floats,
        error: Floats,
        threads: int,
    ) -> BoxSolved:
        """For every column, the minimiser v of Σ ℓ(y − X v) + |v|²/2c_t, with ℓ(e) = max_s s e − ε|s| − ½ δ s².

        `box` is (lower, upper, mirrored, ε, δ): s is between lower and upper; if mirrored, between −upper and −lower
        for negative targets. `dual` is the warm start for s and is overwritten by the solution, `error` by y − X v.
        """
        rank, columns = U.shape[1], self.shape[1]
        V, value, gap = np.empty((columns, rank)), np.empty(columns), np.empty(columns)
        rounds = np.empty(columns, dtype=np.int32)
        self._native.box(y, matrix(U), c, *box, dual, error, V, value, gap, rounds, threads)
        return BoxSolved(V, value, gap, rounds)

    # ---- pieces of the columns: these run in the calling thread, and several may run at once --------------------

    def pieces(self, entries: int) -> list[Piece]:
        """Split the columns into pieces of about `entries` entries, each of whole groups of eight columns."""
        groups = -(-self.shape[1] // LANES)
        starts = self.indptr[np.minimum(np.arange(groups + 1) * LANES, self.shape[1])]
        cuts = np.searchsorted(starts, np.arange(0, self.entries, entries), side="left")
        cuts = np.unique(np.concatenate([[0], cuts, [groups]]))
        return [self._piece(int(a), int(b)) for a, b in pairwise(cuts)]

    def _piece(self, first: int, last: int) -> Piece:
        columns = slice(first * LANES, min(last * LANES, self.shape[1]))
        return Piece(first, last, columns, slice(int(self.indptr[columns.start]), int(self.indptr[columns.stop])))

    def newton_step(
        self,
        piece: Piece,
        active: NDArray[np.uint8],
        x: Floats,
        z: Floats,
        weight: Floats,
        V: Floats,
        ridge: Floats,
        factors: Systems,
        step: Floats,
        decrement: Floats,
    ) -> None:
        """Write the Newton steps (X_tᵀ diag(weight) X_t + ridge_t)⁻¹ (X_tᵀ z_t − ridge_t v_t) of a piece's columns.

        Only active groups of eight columns are processed; `x` is `padded(U)`. Where there is memory for factors, they
        are written too, and the Newton decrements: the product of each step with its right-hand side.
        """
        self._native.newton(piece.first, piece.last, active, x, z, weight, V, ridge, factors.data, step, decrement)

    def products(self, piece: Piece, active: NDArray[np.uint8], x: Floats, rows: Floats, out: Floats) -> None:
        """Write x_i · rows_t at the entries of a piece's active groups; `x` is `padded(U)`."""
        self._native.products(piece.first, piece.last, active, x, rows, out)

    def gram(self, s: Floats, X: Floats, threads: int, Y: Floats | None = None) -> Floats:
        """S (Sᵀ X + Y) for the sparse matrix S with the values `s`; Y is overwritten by Sᵀ X + Y."""
        if X.shape[1] > WIDTH:
            product = np.empty(X.shape)
            for at in high_rank.parts(X.shape[1]):
                rest = None if Y is None else np.ascontiguousarray(Y[:, at])
                product[:, at] = self.gram(s, X[:, at], threads, rest)
                if Y is not None:
                    Y[:, at] = rest
            return product
        product = np.empty(X.shape)
        self._native.gram(s, matrix(X), Y, product, threads)
        return product

    def predict(self, U: Floats, V: Floats, threads: int) -> Floats:
        """u_iᵀ v_t at every entry (i, t) of the pattern."""
        prediction = scratch_like(self.index, np.float64)
        self._native.predict(matrix(U), matrix(V), prediction, threads)
        return prediction


def _scratch_of(used: Solved | None, y: Floats, columns: int, rank: int) -> tuple[Floats, Factors]:
    """Memory for residuals like y and for factors: that of a result which is no longer needed, if it fits."""
    residual = _residual_of(used, y)
    factors = Factors.scratch(columns, rank, None if used is None else used.factors)
    return scratch_like(y) if residual is None else residual, factors


def _residual_of(used: Solved | None, y: Floats) -> Floats | None:
    return None if used is None or used.residual.dtype != y.dtype else used.residual
