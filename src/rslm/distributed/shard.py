"""Some columns with their observations on a worker, and the requests that it answers.

A shard stores the problems that were sent to it and the points at which it solved them. All of that is a cache: a shard
that was rebuilt, because its worker has died, raises a `ForgottenError`, and everything is sent again.

With a location, points are [U, a, b + μ a], of `Problem.extended`: row effects and mean are variables of the process
that asks, column effects are found here.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from rslm.data import ObservedMatrix
from rslm.distributed.recipe import Expected, Map, Recipe
from rslm.evaluation.data_term import local_term
from rslm.evaluation.dual import Duals
from rslm.evaluation.feasible import Change, Correction
from rslm.inner.base import InnerSolution, InnerSolver
from rslm.inner.choose import extended_solver
from rslm.inner.entries.active_set import ActiveSolution
from rslm.inner.tail import Tail
from rslm.kernels import Columns, predict_pairs
from rslm.location import Effects
from rslm.measurements import Entries, Tasks
from rslm.problem import Problem
from rslm.runtime.interrupts import deferred_interrupts, raise_if_stopped
from rslm.runtime.types import Floats, Indices64
from rslm.structures import Box, Multipliers
from rslm.structures.box import ObservedBeyond

ODD = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)  # constants of splitmix64
Convert = Callable[[ObservedMatrix], ObservedMatrix]
Held = tuple[Indices64, Indices64, Floats, Floats | None]


def mixed(columns: NDArray[np.uint64], rows: NDArray[Any], more: Any) -> NDArray[np.uint64]:
    """A pseudorandom hash of every entry, from its position and one more number."""
    numbers = (columns << np.uint64(32) | rows.astype(np.uint64)) * ODD[0]
    numbers ^= numbers >> np.uint64(31)
    numbers += more * ODD[1]
    numbers ^= numbers >> np.uint64(29)
    numbers *= ODD[2]
    numbers ^= numbers >> np.uint64(32)
    return np.asarray(numbers * ODD[1])


class Ranked(Protocol):
    """A metric of how well factors rank held-out entries; its mean over the rows that have some."""

    def score(
        self, users: Floats, items: Floats, known: ObservedMatrix, held_out: ObservedMatrix, n_threads: int | None
    ) -> float: ...


class ForgottenError(LookupError):
    """A shard does not know a problem, a point or dual variables."""


class Point:
    """A solution of the columns of a shard as a `Factored` matrix: at U, or at [U, a, b + μ a] with a location."""

    def __init__(self, problem: Problem, extended: Floats, solution: InnerSolution, solver: InnerSolver) -> None:
        self.solution, self._extended = solution, extended
        self._warm = type(solver), solver.warm
        self._located, self._shape, self._tail = problem.location is not None, problem.shape, Tail.of(problem)

    def warm_start(self, solver: InnerSolver) -> None:
        """Let the next solution start from this one, if the `solver` is of the same kind."""
        kind, warm = self._warm
        if kind is type(solver):
            solver.warm = warm

    @cached_property
    def U(self) -> Floats:
        tail, X = self._tail, self._extended
        return X if tail.width == 0 else np.ascontiguousarray(X[: self._shape[0], : tail.rank(X.shape[1])])

    @cached_property
    def V(self) -> Floats:
        tail, V = self._tail, self.solution.V
        return V if tail.width == 0 else np.ascontiguousarray(V[:, : tail.rank(V.shape[1])])

    @cached_property
    def intercepts(self) -> Floats | None:
        return self.solution.intercepts()

    @cached_property
    def effects(self) -> Effects | None:
        if not self._located:
            return None
        tail, (d, T), V, X = self._tail, self._shape, self.solution.V, self._extended
        c = V[:, tail.rank(V.shape[1])].copy() if tail.columns is not None else np.zeros(T)
        shared = X[:, -1] if tail.pinned else np.zeros(len(X))
        # For entries a is 1, and the mean remains a part of b + μ a.
        return Effects(float(shared[d]) if len(shared) > d else 0.0, shared[:d].copy(), c, np.zeros(0))


class Shard:
    """The columns of one worker.

    Parameters
    ----------
    data : Entries or Tasks
    rebuild : (function, arguments)
        How another process makes the same shard, in case Dask moves it.
    n_threads : int
    held : (columns, rows, values, weights), optional
        Observations that are held out; their weights may be None.
    """

    def __init__(
        self,
        data: Entries | Tasks,
        rebuild: tuple[Callable[..., Shard], tuple[Any, ...]],
        n_threads: int,
        held: Held | None = None,
    ) -> None:
        self.data, self.n_threads, self.rebuild, self.held = data, n_threads, rebuild, held
        self.lock = threading.Lock()  # a request may be repeated while the first one is still running
        self._problems: dict[str, Problem] = {}
        self._solvers: dict[str, InnerSolver] = {}  # of problems that were evaluated
        self._points: dict[str, Point] = {}
        self._duals: dict[str, tuple[Duals, Correction | None]] = {}
        self._multipliers: dict[str, Multipliers | None] = {}
        self._working: dict[str, Any] = {}  # a cache for repeated requests at one point
        self._moved: Floats | None = None

    def __reduce__(self) -> Any:
        return self.rebuild

    def __sizeof__(self) -> int:  # Dask decides by it what to move
        weights = 0 if self.data.weights is None else self.data.weights.nbytes
        return int(self.data.values.nbytes + self.data.columns.index.nbytes + weights)

    # ---- problems and points -------------------------------------------------------------------------------------

    def learn(self, recipe: Recipe) -> None:
        """Store a problem."""
        if recipe.key not in self._problems:
            self._problems[recipe.key] = recipe.problem(self.data, self._expected(recipe.expected))

    def _expected(self, expected: Expected | None) -> Multipliers | None:
        if expected is None:
            return None
        if expected.key not in self._multipliers:
            self.learn(expected.recipe)
            self._multipliers[expected.key] = self._solver(expected.recipe.key).solve(expected.U).multipliers()
        return self._multipliers[expected.key]

    def problem(self, key: str) -> Problem:
        if key not in self._problems:
            raise ForgottenError(key)
        return self._problems[key]

    def _solver(self, key: str) -> InnerSolver:
        if key not in self._solvers:
            after = next(reversed(self._solvers.values()), None)
            solver = self._solvers[key] = extended_solver(self.problem(key), self.n_threads)
            if type(after) is type(solver):
                solver.warm = after.warm
        return self._solvers[key]

    def point(self, key: str) -> Point:
        if key not in self._points:
            raise ForgottenError(key)
        return self._points[key]

    def forget(self, key: str) -> None:
        """Let the next point of a problem depend on U alone."""
        self._solver(key).warm = None

    def kept(self) -> int:
        """How many problems, points and dual variables are stored."""
        return len(self._problems) + len(self._points) + len(self._duals)

    def keep(self, alive: set[str]) -> None:
        """Release all problems and points except `alive`; later ones reuse their memory."""
        self._working.clear()
        for key in [k for k in self._points if k not in alive]:
            self._points.pop(key).solution.release()
        for key in [k for k in self._problems if k not in alive]:
            del self._problems[key]
            self._solvers.pop(key, None)
        for key in [k for k in self._duals if k not in alive]:
            del self._duals[key]
        for key in [k for k in self._multipliers if k not in alive]:
            del self._multipliers[key]

    def evaluate(
        self, problem: str, key: str, U: Floats, alive: set[str], inside: bool, size: float | None, near: str | None
    ) -> tuple[Any, ...]:
        """Solve a problem at U: value, gradient and cost of violating bounds, each the part of these columns.

        `inside` says that columns shall keep hard bounds exactly. With a `size`, start from the columns that were moved
        into their bounds, multiplied by it. `near` is a point to start from, in place of the last one.
        """
        solver = self._solver(problem)  # warm-started from the last one
        if near is not None and (start := self._points.get(near)) is not None:
            start.warm_start(solver)
        self.keep(alive)
        raise_if_stopped()
        if size is not None and self._moved is not None:
            solver.begin_at(U, self._moved * size)
            self._moved = None
        found = solver.solve(U)
        if inside:
            found = cast(ActiveSolution, found).moved_inside()
        self._points[key] = Point(self.problem(problem), U, found, solver)
        return math.inf if math.isnan(found.value) else found.value, found.gradient, found.violation_cost

    # ---- sums at a point -------------------------------------------------------------------------------------------

    def derivative(self, key: str, xi: Floats) -> Floats:
        solution = self.point(key).solution
        raise_if_stopped()
        return solution.derivative(xi)

    def V(self, key: str) -> Floats:
        """V, with the column effects and the pinned coordinate of a location."""
        return self.point(key).solution.V

    def intercepts(self, key: str) -> Floats | None:
        return self.point(key).intercepts

    def row_curvature(self, key: str, moving: Indices64, typical: float | None, bounds: bool) -> tuple[Floats, float]:
        """The upper triangle of one block per row, of the columns of U that move, and a scalar added to diagonals."""
        grams, more = self.point(key).solution.row_curvature(typical, bounds)
        i, j = np.triu_indices(len(moving))
        return grams[:, moving[i], moving[j]], more

    def mean_curvature(self, key: str, ridge: float | None) -> tuple[float, float]:
        return self.point(key).solution.mean_curvature(ridge)

    def moved_columns(self, key: str, costs_of_rows: Floats) -> Floats:
        """V with those columns moved into the bounds that cost less to move than rows."""
        self._moved = cast(ActiveSolution, self.point(key).solution).moved_columns(costs_of_rows)
        return self._moved

    def remember_multipliers(self, key: str, name: str) -> None:
        """Store the multipliers of a point under a `name`."""
        self._multipliers[name] = self.point(key).solution.multipliers()

    def value(self, key: str, problem: str) -> float:
        return local_term(self.problem(problem), self.n_threads).value(self.point(key))

    def least_loss(self, problem: str) -> float:
        return local_term(self.problem(problem), self.n_threads).least_loss()

    def sample(self, key: str, problem: str, at: slice) -> tuple[Floats, Floats]:
        """Some targets and their predictions."""
        asked, point = self.problem(problem), self.point(key)
        w = local_term(asked, self.n_threads).predictions(point)
        return asked.data.values[at].astype(np.float64), w[at]

    def learn_duals(self, name: str, key: str, problem: str, change: Change | None) -> None:
        """Store the dual variables of a point under a `name`, made feasible by a `change`."""
        term, point = local_term(self.problem(problem), self.n_threads), self.point(key)
        duals, correction = term.uncorrected_duals(point), None
        if change is not None:
            correction = Correction(duals, lambda: term.predictions(point))
            correction.apply(change)
            duals.z = correction.z
        self._duals[name] = duals, correction

    def duals(self, name: str, question: str, *args: Any) -> Any:
        """The answer of a method of `Duals`."""
        return getattr(self._known_duals(name)[0], question)(*args)

    def correction(self, name: str, question: str, *args: Any) -> Any:
        """The answer of a method of `Correction`."""
        return getattr(self._known_duals(name)[1], question)(*args)

    def _known_duals(self, name: str) -> tuple[Duals, Correction | None]:
        if name not in self._duals:
            raise ForgottenError(name)
        return self._duals[name]

    # ---- sums over the data --------------------------------------------------------------------------------------

    def gram(self, name: str, problem: str, usual: float, X: Floats, effects: Effects | None) -> Floats:
        """Y YᵀX for the first guess Y of W, with the effects of these columns; Y is kept under a `name`."""
        if name not in self._working:
            self._working = {name: local_term(self.problem(problem), self.n_threads).guess(usual, effects)}
        gram: Callable[[Floats], Floats] = self._working[name]
        return gram(X)

    def values(self, maps: tuple[Map, ...], at: slice) -> Floats:
        """Some of the values, after all functions of `maps`."""
        values = self.data.values[at]
        for function in maps:
            values = function(values)
        return values

    def weighted(self) -> bool:
        """Whether observations have weights."""
        return self.data.weighted

    def sum_of_squared_weights(self) -> float:
        return self.data.sum_of_squared_weights()

    def largest(self) -> float:
        return float(np.abs(self.data.values).max(initial=0.0))

    def row_counts(self) -> Indices64:
        """Number of observations of every row of W."""
        return np.bincount(self.data.columns.index, minlength=self.data.columns.shape[0])

    def column_counts(self) -> Indices64:
        return np.diff(self.data.columns.indptr)

    def sums_of_values(self) -> Floats:
        """The sums of the weights, of the weighted values, and of the weights of positive values."""
        y = self.data.values.astype(np.float64)
        weights = np.ones(len(y)) if self.data.weights is None else self.data.weights
        return np.array([weights.sum(), weights @ y, weights @ (y > 0)])

    def held_out(self, left: Floats, V: Floats) -> Floats:
        """How many entries are held out, and weighted sums: 1, (y − w)², equal signs, y > 0, y and y²."""
        if self.held is None:
            raise ValueError("no entries were held out; distribute the data with distribute(…, holdout=0.1)")
        columns, rows, y, weights = self.held
        w = predict_pairs(rows, columns, left, V, self.n_threads)
        y = y.astype(np.float64)
        each = np.array([np.ones(len(y)), (y - w) ** 2, (y > 0) == (w > 0), y > 0, y, y * y])
        return np.append(len(y), each.sum(axis=1) if weights is None else each @ weights)

    def ranked(self, left: Floats, V: Floats, metric: Ranked) -> Floats:
        """A metric of how well held-out entries are ranked, times the number of columns with such entries, and it."""
        if self.held is None:
            raise ValueError("no entries were held out; distribute the data with distribute(…, holdout=0.1)")
        columns, rows, values, _ = self.held
        shape = self.data.shape[::-1]
        held = ObservedMatrix.from_triplets(columns, rows, values, shape) if len(columns) else None
        if held is None:
            return np.zeros(2)
        known = ObservedMatrix(self.data.columns.indptr, self.data.columns.index, self.data.values, shape)
        count = np.count_nonzero(held.row_counts())
        return np.array([count * metric.score(left, V, known, held, self.n_threads), count])

    def converted(self, convert: Convert, row_ids: Any, col_ids: Any) -> tuple[Entries, Held | None]:
        """Other entries of the same columns, and other held-out ones; ids are for messages."""
        shape = self.data.shape[::-1]
        columns, ids = self.data.columns, (row_ids, col_ids)
        own = ObservedMatrix(columns.indptr, columns.index, self.data.values, shape, *ids, self.data.weights)
        found, held = convert(own), None
        if self.held is not None:
            at, rows, values, weights = self.held
            indptr = np.searchsorted(at, np.arange(shape[0] + 1))
            aside = convert(ObservedMatrix(indptr, rows.astype(np.int32), values, shape, *ids, weights))
            places = aside.rows_of_entries().astype(np.int64), aside.index.astype(np.int64)
            held = *places, aside.values, aside.weights
        pattern = columns if found.index is columns.index else Columns(found.indptr, found.index, shape[1])
        return Entries.of_columns(pattern, found.values, found.weights), held

    def positives(self) -> int:
        return int(np.count_nonzero(self.data.values > 0))

    def has(self, value: float) -> bool:
        return bool((self.data.values == value).any())

    def beyond(self, box: Box) -> ObservedBeyond | None:
        """Observed values that violate bounds of the transposed matrix, whose rows are the columns of this shard."""
        rows = np.repeat(np.arange(self.data.shape[1]), np.diff(self.data.columns.indptr))
        return box.observed_beyond(rows, self.data.columns.index, self.data.values)

    def fingerprint(self, first: int) -> int:
        """A checksum of all observations that does not depend on how the columns were distributed.

        `first` is the number of the first column.
        """
        columns, total = self.data.columns, 0
        for start, end in columns.blocks():
            at = slice(int(columns.indptr[start]), int(columns.indptr[end]))
            counts = np.diff(columns.indptr[start : end + 1])
            number = np.repeat(np.arange(first + start, first + end, dtype=np.uint64), counts)
            bits = self.data.values[at].astype(np.float64).view(np.uint64)
            if self.data.weights is not None:
                weights = self.data.weights[at]  # no weights and weights of 1 are the same
                bits = bits + np.where(weights == 1.0, np.uint64(0), ODD[1] * weights.view(np.uint64))
            total += int(mixed(number, columns.index[at], bits).sum(dtype=np.uint64))
        return total

    def entries(self, at: Indices64) -> tuple[Indices64, Indices64, Floats]:
        """Column (within this shard), row and value of some observations."""
        columns = self.data.columns
        own = np.searchsorted(columns.indptr, at, side="right") - 1
        return own, columns.index[at].astype(np.int64), self.data.values[at]

    def some_columns(self, at: Indices64) -> tuple[Indices64, NDArray[Any], Floats, Floats | None]:
        """How many observations some columns have, and their rows, values and weights."""
        data, indptr = self.data, self.data.columns.indptr
        counts = np.diff(indptr)
        chosen = np.zeros(len(counts), dtype=np.bool_)
        chosen[at] = True
        own = np.repeat(chosen, counts)
        weights = None if data.weights is None else data.weights[own]
        return counts[at], data.columns.index[own], data.values[own], weights


def ask(shard: Shard, question: str, seconds: float | None, *args: Any) -> Any:
    """The task that Dask runs: one request to one shard, one at a time, with a limit in seconds."""
    with shard.lock, deferred_interrupts() as watch, watch.until(seconds):
        return getattr(shard, question)(*args)


def add(parts: list[Any]) -> Any:
    """The sum of numbers, arrays or tuples of these, in the order given."""
    if isinstance(parts[0], tuple):
        return tuple(add(list(each)) for each in zip(*parts, strict=True))
    total = parts[0].copy() if isinstance(parts[0], np.ndarray) else parts[0]
    for part in parts[1:]:
        total += part
    return total
