"""A sparse matrix by columns, and the kernels that process all its columns in one call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rslm.kernels import _native
from rslm.kernels.scratch import scratch_like
from rslm.runtime.types import Floats, Indices64

Integer = TypeVar("Integer", np.int32, np.int64)

BoxNumbers = tuple[float, float, bool, float, float]  # lower, upper, mirrored, ε, δ

BLOCK = 1 << 21  # entries
LANES = 8  # columns whose triangular factors are interleaved


@dataclass(frozen=True)
class Factors:
    """Triangular factors of one rank × rank system per column, in a layout that only the kernels know."""

    data: Floats
    columns: int
    rank: int

    @classmethod
    def scratch(cls, columns: int, rank: int, used: Factors | None = None) -> Factors:
        """Memory for factors: that of `used`, which are no longer needed, if they have the same shape."""
        if used is not None and (used.columns, used.rank) == (columns, rank):
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
        solution = np.empty((self.columns, self.rank))
        _native.solve(self.data, np.ascontiguousarray(rhs, dtype=np.float64), solution, threads)
        return solution


@dataclass(frozen=True)
class Solved:
    """Results of the ridge regressions of all columns: v_t minimises Σ weight (y_t − X_t v)² + ridge_t |v|²."""

    squares: float  #: Σ weight (y − X v)²
    V: Floats  #: (columns, rank)
    residual: Floats  #: weight · (y − X v) at every entry, in the precision of y
    by_rows: Floats  #: (rows, rank): row i is Σ_t residual_it v_t
    factors: Factors  #: of X_tᵀ diag(weight) X_t + ridge_t


@dataclass(frozen=True)
class BoxSolved:
    """Results of the regressions of all columns with a loss that is defined by a box of its dual variables."""

    V: Floats  #: (columns, rank)
    value: Floats  #: Σ ℓ + |v|²/2c of every column
    gap: Floats  #: an upper bound on its distance to the dual value
    rounds: NDArray[np.int32]


@dataclass(frozen=True)
class Piece:
    """Some neighbouring groups of eight columns."""

    first: int
    last: int
    columns: slice
    entries: slice


class FeatureRows:
    """The rows of a feature matrix in the form that the kernels for tasks need.

    `values` are those of a dense array in double precision, or of a matrix in compressed rows; they are not copied.
    """

    def __init__(
        self,
        values: Floats,
        shape: tuple[int, int],
        pattern: tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]] | None = None,
    ) -> None:
        self.features = shape[1]
        indptr, index = (None, None) if pattern is None else (_integers(pattern[0], np.int64), pattern[1])
        index = None if index is None else _integers(index, np.int32)
        self._native = _native.Features(indptr, index, values.reshape(-1), *shape)


class Columns:
    """The sparsity pattern of a rows × columns matrix in compressed columns.

    The order of sums over columns is fixed by the pattern, so results do not depend on `threads`.
    Only one Python thread at a time may use an object, except for the methods that work on pieces.
    """

    def __init__(self, indptr: NDArray[np.integer[Any]], index: NDArray[np.integer[Any]], rows: int) -> None:
        self.indptr = _integers(indptr, np.int64)
        self.index = _integers(index, np.int32)
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
        ones = np.ones(self.entries, dtype=np.int8)
        small = self.indptr.astype(np.int32) if self.entries < 2**31 else self.indptr  # else SciPy widens the index too
        rows = sparse.csc_array((ones, self.index, small), shape=self.shape).tocsr()
        return Columns(rows.indptr, _moved(rows.indices, self.index), self.shape[1])

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
    ) -> Solved:
        """Solve the ridge regressions of all columns on the rows of `U`.

        `ridge` has one number per column, or one per column and coordinate; an infinite one keeps a coordinate at 0. If
        `pinned`, the last coordinate of every v is 1 instead, and its ridge should be infinite. `weight` has one number
        per entry. `scratch` is an earlier result that is no longer needed: its residual and factors are overwritten.
        """
        rows, columns = self.shape
        rank = U.shape[1]
        residual, factors = _scratch_of(scratch, y, columns, rank)
        V, by_rows = np.empty((columns, rank)), np.empty((rows, rank))
        squares = self._native.evaluate(y, weight, _c(U), ridge, pinned, V, factors.data, residual, by_rows, threads)
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
        V = np.empty((self.shape[1], U.shape[1]))
        factors = Factors.scratch(*V.shape, scratch)
        self._native.regress(y, weight, _c(U), ridge, pinned, V, factors.data, threads)
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
        residual, by_rows = scratch_like(y) if scratch is None else scratch, np.empty(U.shape)
        squares = self._native.residuals(y, weight, _c(U), _c(V), residual, by_rows, threads)
        return squares, residual, by_rows

    def derivative(self, solved: Solved, U: Floats, dU: Floats, threads: int, weight: Floats | None = None) -> Floats:
        """The directional derivative of −`by_rows` when U moves along `dU`; `weight` as in `evaluate`."""
        return self.weighted_derivative(solved.residual, weight, U, solved.V, solved.factors, dU, threads)

    def weighted_derivative(
        self,
        z: Floats,
        weight: Floats | None,
        U: Floats,
        V: Floats,
        factors: Factors,
        dU: Floats,
        threads: int,
        dV: Floats | None = None,
    ) -> Floats:
        """The directional derivative of −`scatter(z, V)` along `dU`, where ż = −weight · (dX v + X v̇).

        `factors` are those of X_tᵀ diag(weight) X_t + ridge_t. If `dV` is given, it is added to the right-hand sides
        of the systems for v̇, and overwritten by v̇.
        """
        out = np.empty(U.shape)
        self._native.derivative(z, weight, _c(U), V, factors.data, _c(dU), dV, out, threads)
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
        residual, factors = _scratch_of(scratch, y, columns, rank)
        V, by_features = np.empty((columns, rank)), np.empty(U.shape)
        squares = self._native.evaluate_tasks(
            x._native, centred, y, _c(U), ridge, pinned, V, factors.data, residual, by_features, threads
        )
        return Solved(squares, V, residual, by_features, factors)

    def derivative_tasks(
        self, x: FeatureRows, solved: Solved, U: Floats, dU: Floats, threads: int, *, centred: bool = False
    ) -> Floats:
        """The directional derivative of −`by_rows` of `evaluate_tasks` when U moves along `dU`."""
        out = np.empty(U.shape)
        self._native.derivative_tasks(
            x._native, centred, solved.residual, _c(U), solved.V, solved.factors.data, _c(dU), out, threads
        )
        return out

    def predict_tasks(self, x: FeatureRows, U: Floats, V: Floats, threads: int) -> Floats:
        """x_iᵀ U v_t at every entry (i, t)."""
        prediction = np.empty(self.entries)
        self._native.predict_tasks(x._native, _c(U), _c(V), prediction, threads)
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
        self._native.factorise(_c(X), weight, entries, their_weight, ridge, factors.data, threads)
        return factors

    def scatter(self, s: Floats, V: Floats, threads: int) -> Floats:
        """S V for the sparse matrix S with the values `s`: row i is Σ_t s_it v_t."""
        by_rows = np.empty((self.shape[0], V.shape[1]))
        self._native.scatter(s, _c(V), by_rows, threads)
        return by_rows

    def gather(self, s: Floats, X: Floats, threads: int) -> Floats:
        """Sᵀ X for the sparse matrix S with the values `s`: row t is Σ_i s_it x_i."""
        by_columns = np.empty((self.shape[1], X.shape[1]))
        self._native.gather(s, _c(X), by_columns, threads)
        return by_columns

    def grams(self, X: Floats, threads: int, weight: Floats | None = None) -> Floats:
        """X_tᵀ diag(weight) X_t of every column, (columns, rank, rank)."""
        grams = np.empty((self.shape[1], X.shape[1], X.shape[1]))
        self._native.grams(_c(X), weight, grams, threads)
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
        self._native.box(y, _c(U), c, *box, dual, error, V, value, gap, rounds, threads)
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
        factors: Factors,
        step: Floats,
        decrement: Floats,
    ) -> None:
        """Write the Newton steps (X_tᵀ diag(weight) X_t + ridge_t)⁻¹ (X_tᵀ z_t − ridge_t v_t) of a piece's columns.

        Only active groups of eight columns are processed; `x` is `padded(U)`. The factors of the systems are written
        too, and the Newton decrements: the product of each step with its right-hand side.
        """
        self._native.newton(piece.first, piece.last, active, x, z, weight, V, ridge, factors.data, step, decrement)

    def products(self, piece: Piece, active: NDArray[np.uint8], x: Floats, rows: Floats, out: Floats) -> None:
        """Write x_i · rows_t at the entries of a piece's active groups; `x` is `padded(U)`."""
        self._native.products(piece.first, piece.last, active, x, rows, out)

    def gram(self, s: Floats, X: Floats, threads: int, Y: Floats | None = None) -> Floats:
        """S (Sᵀ X + Y) for the sparse matrix S with the values `s`; Y is overwritten by Sᵀ X + Y."""
        product = np.empty(X.shape)
        self._native.gram(s, _c(X), Y, product, threads)
        return product

    def predict(self, U: Floats, V: Floats, threads: int) -> Floats:
        """u_iᵀ v_t at every entry (i, t) of the pattern."""
        prediction = scratch_like(self.index, np.float64)
        self._native.predict(_c(U), _c(V), prediction, threads)
        return prediction


def box_curvature(y: Floats, error: Floats, box: BoxNumbers, threads: int, order: Indices64 | None = None) -> Floats:
    """ℓ'' of a loss defined by its box, δ > 0, at these errors; element k is that of entry order[k] if given."""
    curvature = scratch_like(error)
    _native.box_curvature(y, error, order, *box, curvature, threads)
    return curvature


def padded(U: Floats) -> Floats:
    """The rows of U in the form that the kernels need: padded with zeros, and one row of zeros after the last."""
    U = _c(U)
    out = np.empty((U.shape[0] + 1, _native.padded_width(U.shape[1])))
    _native.padded(U, out)
    return out


def predict_pairs(
    i: NDArray[np.integer[Any]], t: NDArray[np.integer[Any]], U: Floats, V: Floats, threads: int
) -> Floats:
    """u_iᵀ v_t for pairs of indices."""
    prediction = np.empty(len(i))
    _native.predict_pairs(_integers(i, np.int64), _integers(t, np.int64), _c(U), _c(V), prediction, threads)
    return prediction


def _scratch_of(used: Solved | None, y: Floats, columns: int, rank: int) -> tuple[Floats, Factors]:
    """Memory for residuals like y and for factors: that of a result which is no longer needed, if it fits."""
    if used is None or used.V.shape != (columns, rank) or used.residual.dtype != y.dtype:
        return scratch_like(y), Factors.scratch(columns, rank)
    return used.residual, used.factors


def _c(a: Floats) -> Floats:
    if a.ndim != 2:
        raise ValueError(f"a factor must have two dimensions; got shape {a.shape}")
    return np.ascontiguousarray(a, dtype=np.float64)


def _moved(array: NDArray[Any], like: NDArray[Any]) -> NDArray[Any]:
    """The array with the type of `like`, and on disk if `like` is mapped from disk."""
    scratch = scratch_like(like)
    if not isinstance(scratch, np.memmap):
        return array
    scratch[:] = array
    return scratch


def _integers(a: NDArray[np.integer[Any]], dtype: type[Integer]) -> NDArray[Integer]:
    """The integers in another type; an error if they do not fit, instead of wrapping around."""
    if a.dtype.kind not in "iu":
        raise TypeError(f"indices must be integers; got {a.dtype}")
    if a.size and not np.can_cast(a.dtype, dtype) and (a.max() > np.iinfo(dtype).max or a.min() < np.iinfo(dtype).min):
        raise ValueError(f"an index does not fit into {np.dtype(dtype)}")
    return np.ascontiguousarray(a, dtype=dtype)
