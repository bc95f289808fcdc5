"""Some columns with their observations on a worker, and the requests that it answers.

A shard stores the problems that were sent to it and the points at which it solved them. All of that is a cache: a shard
that was rebuilt, because its worker has died, raises a `ForgottenError`, and everything is sent again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rslm.distributed.recipe import Expected, Map, Recipe
from rslm.evaluation.data_term import LocalTerm
from rslm.evaluation.dual import DualSums
from rslm.evaluation.objective import Evaluation, Objective
from rslm.inner.entries.active_set import ActiveSolution
from rslm.kernels import predict_pairs
from rslm.measurements import Entries, Tasks
from rslm.problem import Problem
from rslm.runtime.interrupts import deferred_interrupts
from rslm.runtime.types import Floats, Indices64
from rslm.structures import Box, Multipliers
from rslm.structures.box import ObservedBeyond

ODD = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)  # constants of splitmix64
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


class ForgottenError(LookupError):
    """A shard does not know a problem or a point."""


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
        self._objectives: dict[str, Objective] = {}  # of problems that were evaluated
        self._points: dict[str, Evaluation] = {}
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
            found = self._objective(expected.recipe.key).evaluate(expected.U)
            self._multipliers[expected.key] = found.multipliers()
        return self._multipliers[expected.key]

    def problem(self, key: str) -> Problem:
        if key not in self._problems:
            raise ForgottenError(key)
        return self._problems[key]

    def _objective(self, key: str) -> Objective:
        if key not in self._objectives:
            after = next(reversed(self._objectives.values()), None)
            self._objectives[key] = Objective(self.problem(key), self.n_threads, after=after)
        return self._objectives[key]

    def point(self, key: str) -> Evaluation:
        if key not in self._points:
            raise ForgottenError(key)
        return self._points[key]

    def forget(self, key: str) -> None:
        """Let the next point of a problem depend on U alone."""
        self._objective(key).forget()

    def kept(self) -> int:
        """How many problems and points are stored."""
        return len(self._problems) + len(self._points)

    def keep(self, alive: set[str]) -> None:
        """Release all problems and points except `alive`; later ones reuse their memory."""
        self._working.clear()
        for key in [k for k in self._points if k not in alive]:
            self._points.pop(key).release()
        for key in [k for k in self._problems if k not in alive]:
            del self._problems[key]
            self._objectives.pop(key, None)
        for key in [k for k in self._multipliers if k not in alive]:
            del self._multipliers[key]

    def evaluate(self, problem: str, key: str, U: Floats, alive: set[str], size: float | None) -> tuple[Any, ...]:
        """Solve a problem at U: value, gradient and cost of violating bounds, each the part of these columns.

        With a `size`, start from the columns that were moved into their bounds, multiplied by it.
        """
        objective = self._objective(problem)  # warm-started from the last one
        self.keep(alive)
        if size is not None and self._moved is not None:
            objective.begin_at(U, self._moved * size)
            self._moved = None
        found = self._points[key] = objective.evaluate(U)
        return found.value, found.gradient, found.violation_cost

    # ---- sums at a point -------------------------------------------------------------------------------------------

    def derivative(self, key: str, xi: Floats) -> Floats:
        return self.point(key).hessian_product(xi)

    def V(self, key: str) -> Floats:
        return self.point(key).V

    def intercepts(self, key: str) -> Floats | None:
        return self.point(key).intercepts

    def row_curvature(self, key: str, typical: float | None, bounds: bool) -> tuple[Floats, float]:
        """The upper triangle of one r×r block per row, and a scalar added to every diagonal."""
        grams, more = self.point(key).row_curvature(typical, bounds)
        return grams[:, *np.triu_indices(grams.shape[1])], more

    def moved_columns(self, key: str, costs_of_rows: Floats) -> Floats:
        """V with those columns moved into the bounds that cost less to move than rows."""
        self._moved = cast(ActiveSolution, self.point(key).solution).moved_columns(costs_of_rows)
        return self._moved

    def remember_multipliers(self, key: str, name: str) -> None:
        """Store the multipliers of a point under a `name`."""
        self._multipliers[name] = self.point(key).multipliers()

    def value(self, key: str, problem: str) -> float:
        return LocalTerm(self.problem(problem), self.n_threads).value(self.point(key))

    def least_loss(self, problem: str) -> float:
        return LocalTerm(self.problem(problem), self.n_threads).least_loss()

    def sample(self, key: str, problem: str, at: slice) -> tuple[Floats, Floats]:
        """Some targets and their predictions."""
        asked, point = self.problem(problem), self.point(key)
        w = LocalTerm(asked, self.n_threads).predictions(point)
        return asked.data.values[at].astype(np.float64), w[at]

    def duals(self, key: str, problem: str, question: str, *args: Any) -> Any:
        """The answer of a method of `DualSums`."""
        name = f"duals {key} {problem}"
        if name not in self._working:
            self._working = {name: self.point(key).duals(self.problem(problem))}
        duals: DualSums = self._working[name]
        return getattr(duals, question)(*args)

    # ---- sums over the data --------------------------------------------------------------------------------------

    def gram(self, problem: str, usual: float, X: Floats) -> Floats:
        name = f"gram {problem}"
        if name not in self._working:
            self._working = {name: LocalTerm(self.problem(problem), self.n_threads).guess(usual)}
        gram: Callable[[Floats], Floats] = self._working[name]
        return gram(X)

    def values(self, maps: tuple[Map, ...], at: slice) -> Floats:
        """Some of the values, after all functions of `maps`."""
        values = self.data.values[at]
        for function in maps:
            values = function(values)
        return values

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
                bits = bits + ODD[1] * self.data.weights[at].view(np.uint64)
            total += int(mixed(number, columns.index[at], bits).sum(dtype=np.uint64))
        return total

    def entries(self, at: Indices64) -> tuple[Indices64, Indices64, Floats]:
        """Column (within this shard), row and value of some observations."""
        columns = self.data.columns
        own = np.searchsorted(columns.indptr, at, side="right") - 1
        return own, columns.index[at].astype(np.int64), self.data.values[at]


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
