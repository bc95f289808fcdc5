"""The models among which a search chooses, and the fit of one of them.

    prediction of a row of task t = x·(w₀ + w_t) + μ + c_t

with ridges on w₀ and c. The part W = (w_t) of the tasks has low rank and is penalised by ½‖W‖_*², or it is penalised by
a ridge, ½ d |W|²: the same problem with U = I/√d in place of the best U. Without it, all tasks share one model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from rslm.estimators.defaults import TYPICAL, spread
from rslm.estimators.tasks.fixed_subspace import solve_effects
from rslm.estimators.tasks.kinks import STAGES, rounded
from rslm.estimators.tasks.leverage import Ridges
from rslm.evaluation.effects import effects_alone
from rslm.linalg.low_rank import singular_values, thin_svd
from rslm.location import Effects, Location
from rslm.location.packing import Packing
from rslm.losses import Loss
from rslm.measurements import Tasks
from rslm.problem import Problem
from rslm.runtime.types import Floats
from rslm.solvers import solve

LOW_RANK, RIDGE, NONE = "low rank", "ridge", "none"

TOL = 1e-3  # of fits within a search
MOST_ITERATIONS = 40  # likewise; more are needed only where C is so large that predictions are bad
WIDEST = 120  # columns of a fixed U; with more, systems are not factorised
SMALL = 1e-2  # size of new directions in a warm start
NEGLIGIBLE = 1e-3  # singular values relative to the largest one, at the accuracy of a search
CURVATURE_OF_CLASSES = 0.25  # of the logistic loss at 0


@dataclass(frozen=True)
class Setting:
    """One model. Ridges are in units of rows: 10 weighs as much as ten rows of features of size 1."""

    task_part: str  #: `LOW_RANK`, `RIDGE` or `NONE`
    C: float
    rank: int
    common: float | None  #: ridge of the common coefficients; None without them
    intercepts: float | None  #: ridge of the intercepts of the tasks; None if they are not shrunk


@dataclass(frozen=True, eq=False)
class Fitted:
    """W = U Vᵀ, and what is added to it."""

    U: Floats
    V: Floats
    effects: Effects | None
    intercepts: Floats | None

    def point(self, problem: Problem, rank: int) -> Floats | None:
        """Where a fit of another setting may start; new directions are small. None if W is 0."""
        P, s, _ = thin_svd(self.U, self.V)
        if not s[0] > 0:
            return None
        U = P[:, :rank] * np.sqrt(s[:rank])
        U /= np.linalg.norm(U)
        if rank > U.shape[1]:
            more = np.random.default_rng(0).standard_normal((len(U), rank - U.shape[1]))
            U = np.hstack([U, SMALL * more / np.linalg.norm(more)])
        U /= np.linalg.norm(U)
        return U if problem.location is None else Packing.of(problem).packed(U, self.effects)

    def predict(self, data: Tasks, n_threads: int) -> Floats:
        if self.effects is None:
            return data.predict(self.U, self.V, n_threads, self.intercepts)
        return data.with_effects(self.U, self.V, self.effects, n_threads)

    def rank(self) -> int:
        """The number of singular values of W that are not negligible."""
        s = singular_values(self.U, self.V)
        return int((s > NEGLIGIBLE * s[0]).sum()) if s[0] > 0 else 0


@dataclass(frozen=True, eq=False)
class Family:
    """What all models of a search have in common."""

    loss: Loss
    located: bool  #: whether there may be common coefficients and shrunk intercepts
    fit_intercept: bool
    curvature: float  #: a typical second derivative of the loss
    n_threads: int

    @classmethod
    def of(cls, loss: Loss, located: bool, fit_intercept: bool, values: Floats, n_threads: int) -> Family:
        return cls(loss, located, fit_intercept, curvature_of(loss, values), n_threads)

    def location(self, setting: Setting) -> Location | None:
        if not self.located or (setting.common is None and not self.fit_intercept):
            return None
        unit = self.curvature * setting.C
        ridges = [None if ridge is None else unit * ridge for ridge in (setting.common, setting.intercepts)]
        return Location(self.fit_intercept, *ridges)

    def ridges(self, setting: Setting) -> Ridges:
        """Of the part of a task: its coordinates V, and its intercept."""
        free = 0.0 if self.fit_intercept else None
        own = setting.intercepts if self.located and self.fit_intercept else free
        return Ridges(1.0 / max(self.curvature * setting.C, np.finfo(float).tiny), own)

    def problem(self, setting: Setting, data: Tasks) -> Problem:
        return Problem(self.loss, data, C=setting.C, location=self.location(setting))

    def smooth(self, values: Floats) -> Family:
        """The same with rounded kinks, for a search."""
        return replace(self, loss=rounded(self.loss, values))

    def fit(self, setting: Setting, data: Tasks, start: Fitted | None = None, max_time: float | None = None) -> Fitted:
        """A fit that is accurate enough to compare settings."""
        problem = self.problem(setting, data)
        if setting.task_part != LOW_RANK:
            return self.convex(setting, problem, TOL, start)
        result = solve(
            problem,
            setting.rank,
            start=None if start is None else start.point(problem, setting.rank),
            tol=TOL,
            max_iter=MOST_ITERATIONS,
            max_time=max_time,
            random_state=0,
            n_threads=self.n_threads,
            certificate=False,
        )
        return Fitted(result.U, result.V, result.effects, result.intercepts)

    def convex(self, setting: Setting, problem: Problem, tol: float, start: Fitted | None = None) -> Fitted:
        """A fit with U fixed, or without U."""
        d, T = problem.shape
        if setting.task_part == NONE:
            if problem.location is None:
                return Fitted(np.zeros((d, 1)), np.zeros((T, 1)), None, None)
            return Fitted(np.zeros((d, 1)), np.zeros((T, 1)), effects_alone(problem, self.n_threads), None)
        U = directions(cast(Tasks, problem.data))
        effects = None if start is None else start.effects
        for part in (1.0,) if problem.loss.smooth else STAGES:
            smooth = replace(problem, loss=rounded(problem.loss, cast(Tasks, problem.data).values, part))
            found = solve_effects(smooth, U, self.n_threads, tol, effects)
            effects = found.effects
        return Fitted(U, found.V, effects, found.intercepts)


def directions(data: Tasks) -> Floats:
    """I/√d; with many features as many of their leading principal directions as the kernels support."""
    d = data.shape[0]
    if d <= WIDEST:
        return np.asarray(np.eye(d) / np.sqrt(d))
    vectors, values = data.features.spectrum
    found = np.eye(d)[:, np.argsort(values)] if vectors is None else vectors
    return np.ascontiguousarray(np.asarray(found)[:, ::-1][:, :WIDEST] / np.sqrt(WIDEST))


def curvature_of(loss: Loss, values: Floats) -> float:
    """The gradient of a typical error, relative to the error: the second derivative of a quadratic loss."""
    if loss.binary:
        return CURVATURE_OF_CLASSES
    error = TYPICAL * spread(values)
    pull = float(np.mean(np.abs(loss.gradient(np.array([-error, error]), np.zeros(2)))))
    return pull / error if pull > 0 and np.isfinite(pull) else 2.0
