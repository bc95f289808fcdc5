"""Observations on the workers of a cluster: a measurement, its inner solver and its data term."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast
from uuid import uuid4

import numpy as np

from rslm.data.prepared.manifest import checksums
from rslm.distributed.cluster import Cluster
from rslm.distributed.recipe import Expected, Map, Recipe
from rslm.distributed.remote_duals import RemoteDuals
from rslm.evaluation.data_term import Factored
from rslm.evaluation.feasible import make_feasible
from rslm.inner.base import InnerSolution, InnerSolver
from rslm.inner.entries.active_set import constant, costs_of_moving, moved_within
from rslm.inner.features.kronecker import kronecker_preconditioner
from rslm.inner.tail import ROUGH, Tail
from rslm.kernels import Bound, Factors
from rslm.location import Effects
from rslm.measurements import AllEntries, Entries, Measurement, Tasks
from rslm.measurements.all_entries import check_parts, checked_alpha0, of_zeros
from rslm.problem import Problem
from rslm.runtime.types import Floats
from rslm.structures import SoftBox, Structure

SAMPLE = 100_000  # errors from which their median is estimated
ON_WORKERS = "values and positions"  # of observations, in a checkpoint


@dataclass(frozen=True)
class Part:
    """The columns and the observations of a shard."""

    columns: slice
    entries: slice

    def every(self, step: int) -> slice:
        """The observations of this shard whose index among all observations is a multiple of `step`."""
        return slice(-self.entries.start % step, self.entries.stop - self.entries.start, step)


class Shards(Measurement):
    """Columns that are distributed over workers.

    Parameters
    ----------
    cluster : Cluster
    shape : (d, T)
    parts : list of Part
        The columns and observations of each shard.
    tasks : Tasks, optional
        If the columns are tasks, all of them, for sums over their features.
    maps : tuple of functions
        Functions that are applied to the values, in this order.
    alpha0 : float, optional
        Weight of zeros at all entries, as in `AllEntries`; None for the observed entries alone.
    """

    def __init__(
        self,
        cluster: Cluster,
        shape: tuple[int, int],
        parts: list[Part],
        tasks: Tasks | None = None,
        maps: tuple[Map, ...] = (),
        alpha0: float | None = None,
    ) -> None:
        self.cluster, self._shape, self.parts, self.tasks, self.maps = cluster, shape, parts, tasks, maps
        self.intercept = tasks is not None and tasks.intercept
        kind = Entries if alpha0 is None else AllEntries
        self.background = 0.0 if alpha0 is None else checked_alpha0(alpha0)
        self.traits = kind.traits if tasks is None else tasks.traits
        self.locatable = kind.locatable

    at_hand = False

    @property
    def weighted(self) -> bool:
        return self._weighted

    @cached_property
    def _weighted(self) -> bool:
        return any(self.cluster.each("weighted")) if self.tasks is None else self.tasks.weighted

    def sum_of_squared_weights(self) -> float:
        return float(sum(self.cluster.each("sum_of_squared_weights"))) if self.weighted else float(len(self))

    @property
    def narrow(self) -> bool:
        """As `Tasks.narrow`."""
        return self.tasks is not None and self.tasks.narrow

    def located(self) -> tuple[Shards, Floats]:
        if self.tasks is None:
            return self, np.ones(self.shape[0])
        tasks, a = self.tasks.located()
        return Shards(self.cluster, tasks.shape, self.parts, tasks, self.maps), a

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    def validate(self, loss: Any, structure: Structure, location: Any) -> None:
        if self.background > 0.0:
            check_parts(loss, structure, location)
        if self.tasks is not None and structure.box is not None:
            raise TypeError(
                "tasks with bounds cannot be distributed over processes: to keep the bounds, all columns are moved "
                "together; fit them in one process, without a client"
            )

    def __len__(self) -> int:
        return int(self.parts[-1].entries.stop)

    def __repr__(self) -> str:
        d, T = self.shape
        return f"Shards({d} × {T}, {len(self)} observed, {len(self.parts)} shards)"

    def map(self, function: Map) -> Shards:
        alpha0 = self.background or None
        other = Shards(self.cluster, self.shape, self.parts, self.tasks, (*self.maps, function), alpha0)
        if "_weighted" in self.__dict__:
            other.__dict__["_weighted"] = self._weighted
        return other

    def remote_solver(self, problem: Problem) -> RemoteSolver:
        return RemoteSolver(self, problem)

    def remote_term(self, problem: Problem) -> RemoteTerm:
        return RemoteTerm(self, problem)

    def fingerprint(self) -> dict[str, str]:
        if (tasks := self.tasks) is not None:  # they are in this process; shards have their own row numbers of X
            X, columns = tasks.features.X, tasks.columns
            features = (X.data, X.indices, X.indptr) if tasks.features.sparse else (X,)
            weights = () if tasks.weights is None else (tasks.weights,)
            return {ON_WORKERS: checksums(columns.indptr, columns.index, tasks.values, *features, *weights)}
        own = [(part.columns.start,) for part in self.parts]
        found = {ON_WORKERS: f"{sum(self.cluster.each('fingerprint', own=own)) % 2**64:016x}"}
        return found if self.background == 0.0 else found | of_zeros(self.background)

    def sample(self, size: int) -> Floats:
        step = len(self) // size + 1
        return np.concatenate(self.cluster.each("values", self.maps, own=[(part.every(step),) for part in self.parts]))


class RemoteSolver(InnerSolver):
    """The inner solver of a problem whose columns are on workers."""

    def __init__(self, shards: Shards, problem: Problem) -> None:
        self.shards, self.problem, self.cluster = shards, problem, shards.cluster
        structure, softness, expected = problem.structure, None, None
        if structure.form == "soft bounds":
            softness, expected = cast(SoftBox, structure).softness, cast(SoftBox, structure).expected
        rest = problem.row_weights, problem.column_weights, problem.location, shards.background
        self.recipe = Recipe(problem.loss, problem.C, shards.maps, structure.box, softness, expected, *rest)  # type: ignore[arg-type]
        self.tail = Tail.of(problem)
        self._near: str | None = None  # the solution that the next one starts from; the workers' last one if None
        self.send()

    def send(self) -> None:
        self.cluster.known[self.key] = self
        self.cluster.each("learn", own=[(self.recipe.part(part.columns),) for part in self.shards.parts])

    @property
    def key(self) -> str:
        return self.recipe.key

    @property
    def warm(self) -> str | None:
        """The key of the last solution, which workers keep and start from; None if they need no warm start."""
        return None if self.problem.plain else self._near or ""

    @warm.setter
    def warm(self, value: str | None) -> None:
        self._near = value or None
        if value is None:
            self.cluster.each("forget", self.key)

    def names(self) -> set[str]:
        """The names of everything that workers have to keep for this solver."""
        expected = self.recipe.expected
        return {self.key} if expected is None else {self.key, expected.key}

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        return "needs columns on workers" if problem.data.at_hand else None

    def solve(self, U: Floats) -> RemoteSolution:
        solution = RemoteSolution(self, U, near=self._near)
        self._near = solution.key
        return solution


class RemoteSolution(InnerSolution):
    """The solutions of all shards at one U, or at [U, a, b + μ a] where there is a location.

    `inside` says that columns shall keep hard bounds exactly. The workers start from the solution `near`, if they still
    have it.
    """

    def __init__(
        self,
        solver: RemoteSolver,
        U: Floats,
        inside: bool = False,
        size: float | None = None,
        near: str | None = None,
    ) -> None:
        self.solver, self.U, self.key, self.inside, self._near = solver, U, uuid4().hex, inside, near
        self.cluster = solver.cluster
        self.value, self.gradient, self.violation_cost = self.send(size)

    def send(self, size: float | None = None) -> tuple[float, Floats, float]:
        """Let the workers solve the problem at U; with a `size`, from the columns that were moved into their bounds."""
        self.cluster.known[self.key] = self
        alive = {name for known in list(self.cluster.known.values()) for name in known.names()}
        found: tuple[float, Floats, float] = self.cluster.total(
            "evaluate", self.solver.key, self.key, self.U, alive, self.inside, size, self._near
        )
        return found

    def names(self) -> set[str]:
        return {self.key}

    def release(self) -> None:
        self.cluster.known.pop(self.key, None)

    def _check(self) -> None:
        if self.key not in self.cluster.known:
            raise RuntimeError("this evaluation has been released; evaluate the point again")

    @cached_property
    def V(self) -> Floats:  # type: ignore[override]
        if self.key not in self.cluster.known:
            self.send()
        return np.concatenate(self.cluster.each("V", self.key))

    def intercepts(self) -> Floats | None:
        tasks = self.solver.shards.tasks
        if tasks is None or not tasks.intercept:
            return None
        return np.concatenate(self.cluster.each("intercepts", self.key))

    def derivative(self, xi: Floats) -> Floats:
        self._check()
        total: Floats = self.cluster.total("derivative", self.key, xi)
        return total

    # ---- the preconditioner ----------------------------------------------------------------------------------------

    def preconditioner(self) -> Callable[[Floats], Floats]:
        tail, problem = self.solver.tail, self.solver.problem
        tasks = cast(Shards, problem.extended.data).tasks
        if tasks is not None:
            return kronecker_preconditioner(tasks.features, tasks.columns, 2.0 * problem.C, self.V, self.V, tail)
        factors, moving = Factors.of(self._row_systems(bounds=True), 1), tail.moving(self.U.shape[1])
        if tail.width == 0:
            return lambda eta: factors.solve(eta, 1)

        def solve(eta: Floats) -> Floats:
            out = np.zeros(eta.shape)
            out[:, moving] = factors.solve(eta[:, moving], 1)
            return out

        return solve

    def _row_systems(self, *, bounds: bool) -> Floats:
        """(C/p_i) Σ_t D_it v_t v_tᵀ + ‖UᵀS‖² I of every row; with `bounds`, active bounds count as entries.

        With a location, the last coordinate is that of the row effects, with their ridge in place of ‖UᵀS‖².
        """
        self._check()
        tail, width = self.solver.tail, self.U.shape[1]
        moving = tail.moving(width)
        halves, more = self.cluster.total("row_curvature", self.key, moving, self._typical_error(), bounds)
        B = np.empty((len(halves), len(moving), len(moving)))
        i, j = np.triu_indices(len(moving))
        B[:, i, j] = B[:, j, i] = halves
        own = range(tail.rank(width))
        B[:, own, own] += max(more, np.finfo(float).tiny)
        if tail.pinned:
            B[:, -1, -1] += max(tail.rows, ROUGH * self._unit)
        return B

    @property
    def _unit(self) -> float:
        """By which the systems of the columns are divided."""
        problem = self.solver.problem
        return 2.0 * problem.C if problem.loss.quadratic else problem.C

    def mean_curvature(self, ridge: float | None) -> tuple[float, float]:
        self._check()
        total: tuple[float, float] = self.cluster.total("mean_curvature", self.key, ridge)
        return total

    def _typical_error(self) -> float | None:
        problem = self.solver.problem
        if problem.loss.interval is None or problem.structure.form != "free" or self.solver.tail.width:
            return None
        y, w = self.sample(problem, SAMPLE)
        return problem.loss.interval.typical(y, y - w)

    # ---- sums ------------------------------------------------------------------------------------------------------

    def asked(self, problem: Problem) -> str:
        """The key of a problem for which sums are requested from the workers."""
        self._check()
        return self.solver.key if problem is self.solver.problem else key_of(problem)

    def sample(self, problem: Problem, size: int) -> tuple[Floats, Floats]:
        shards, step = self.solver.shards, len(problem.data) // size + 1
        name = self.asked(problem)
        parts = self.cluster.each("sample", self.key, name, own=[(part.every(step),) for part in shards.parts])
        y, w = (np.concatenate(each) for each in zip(*parts, strict=True))
        return y, w

    def dual(self) -> Floats:
        raise TypeError("the dual variables are on the workers; only sums over them are available")

    # ---- bounds ----------------------------------------------------------------------------------------------------

    def multipliers(self) -> Any:
        """A reference to the multipliers, which stay on the workers."""
        if self.solver.recipe.box is None:
            return None
        expected = Expected(self.solver.recipe, self.U)
        self.cluster.each("remember_multipliers", self.key, expected.key)
        return expected

    def within_bounds(self) -> tuple[Floats, RemoteSolution] | None:
        """As `ActiveSolution.within_bounds`: rows are moved in this process, with all of V, columns on the workers."""
        box, problem = self.solver.recipe.box, self.solver.problem
        if box is None:
            return None
        hard = self.solver.shards.remote_solver(replace(problem, structure=box))
        if self.solver.tail.width:
            return self.U, RemoteSolution(hard, self.U, inside=True)
        X, (lower, upper) = self.U * problem.row_scale, box.planes(problem.shape)
        p = np.ones(len(X)) if problem.row_weights is None else problem.row_weights
        # Costs of columns have the same unit.
        systems = self._row_systems(bounds=False) * (p / self._unit)[:, None, None]  # of rows u/√p

        def rows(V: Floats) -> Bound:
            return moved_within(V, X, Factors.of(systems, 1), lower.T, upper.T, 1)

        V = np.concatenate(self.cluster.each("moved_columns", self.key, costs_of_moving(rows(self.V), X)))
        U = rows(V).V / problem.row_scale
        size = float(np.linalg.norm(U))
        kept = U / size, RemoteSolution(hard, U / size, inside=True, size=size)
        if np.isfinite(kept[1].value):
            return kept
        flat = constant(hard.problem, X, self.V)
        return flat, RemoteSolution(hard, flat, inside=True)


def key_of(problem: Problem) -> str:
    """The key of a problem for which sums are requested from the workers; the last such problem is kept."""
    shards = cast(Shards, problem.data)
    last = shards.cluster.asked
    if last is None or last.problem is not problem:
        last = shards.cluster.asked = shards.remote_solver(problem)
    return str(last.key)


def solution_of(W: Factored) -> RemoteSolution:
    """The solution on the workers that W comes from."""
    assert W.solution is not None
    return cast(RemoteSolution, W.solution.extended)


class RemoteTerm:
    """The observations on the workers and the loss of one problem; see `rslm.evaluation.data_term`."""

    def __init__(self, shards: Shards, problem: Problem) -> None:
        self.shards, self.cluster, self.problem = shards, shards.cluster, problem

    def value(self, W: Factored) -> float:
        solution = solution_of(W)
        return float(self.cluster.total("value", solution.key, solution.asked(self.problem)))

    def least_loss(self) -> float:
        return float(self.cluster.total("least_loss", key_of(self.problem)))

    def sample(self, W: Factored, size: int) -> tuple[Floats, Floats]:
        return solution_of(W).sample(self.problem, size)

    def duals(self, W: Factored) -> RemoteDuals:
        columns = [part.columns for part in self.shards.parts]
        duals = RemoteDuals(columns, solution_of(W), self.problem)
        if self.problem.location is not None:
            make_feasible(duals, self.problem)
        return duals

    def guess(self, usual: float, effects: Effects | None = None) -> Callable[[Floats], Floats]:
        name, key = uuid4().hex, key_of(self.problem)
        own = [
            (None if effects is None else replace(effects, columns=effects.columns[part.columns]),)
            for part in self.shards.parts
        ]

        def gram(X: Floats) -> Floats:
            total: Floats = self.cluster.total("gram", name, key, usual, X, own=own)
            return total

        return gram
