"""Location without W: mean, row effects and column effects alone, by Newton's method with conjugate gradients.

It is where solvers start, and what every answer is compared with.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rslm.linalg.conjugate_gradients import conjugate_gradients
from rslm.location import Effects
from rslm.losses.checked import CheckedLoss, usual_size
from rslm.problem import Problem
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats

MOST_STEPS, MOST_PRODUCTS = 50, 500
ENOUGH = 1e-18  # Newton decrement relative to the objective
EXACT = 1e-10  # relative residual of a system
DAMPING = 1e-9  # relative to the largest curvature
ROUNDED = 1e-3  # width of rounded kinks relative to the targets
SAMPLE = 100_000


def effects_alone(problem: Problem, n_threads: int) -> Effects:
    """The best effects where W is 0. Kinks of the loss are rounded a little; bounds are not considered."""
    loss = problem.loss
    if not loss.smooth:
        usual = usual_size(np.asarray(problem.data.sample(SAMPLE), dtype=np.float64)) or 1.0
        reach = 1.0 if loss.interval is None else loss.interval.reach
        problem = replace(problem, loss=loss.rounded(ROUNDED * usual / reach))
    model = _Model(problem, n_threads, kinked=not loss.smooth)
    x = model.start()
    value, z, D = model.at(x)
    for _ in range(MOST_STEPS):
        raise_if_stopped()
        descent = model.adjoint(z) - model.ridge * x
        diagonal = model.diagonal(D) + model.ridge
        if not 0.0 < float(diagonal.max()) < math.inf:
            break
        # Without penalties some combinations of effects are not determined; they shall not drift.
        damping = DAMPING * max(float(diagonal.max()), np.finfo(float).tiny)
        inverse = 1.0 / (diagonal + damping)
        step = conjugate_gradients(
            lambda v, D=D, e=damping: model.adjoint(D * model.apply(v)) + (model.ridge + e) * v,  # type: ignore[misc]
            descent,
            lambda v, inverse=inverse: inverse * v,  # type: ignore[misc]
            tol=EXACT,
            most=MOST_PRODUCTS,
        )
        decrement = float(step @ descent)
        if not decrement > ENOUGH * abs(value):
            break
        length = 1.0
        while length > 1e-10:
            trial = model.at(x + length * step)
            if trial[0] <= value - 1e-4 * length * decrement + 1e-14 * abs(value):
                break
            length *= 0.5
        else:
            break
        x, (value, z, D) = x + length * step, trial
    return model.effects(x)


class _Model:
    """Predictions of the effects (μ, b, c, β), stored in one vector, and their derivatives."""

    def __init__(self, problem: Problem, n_threads: int, kinked: bool = False) -> None:
        assert problem.location is not None
        self.kinked = kinked  # beside its kinks the loss has no curvature of its own
        self.problem, self.location, self.threads = problem, problem.location, n_threads
        self.data, self.a = problem.data.located()
        self.loss, self.C = CheckedLoss(problem.loss), problem.C
        self.y = np.asarray(problem.data.values, dtype=np.float64)
        self.weights: Floats | float = 1.0 if problem.data.weights is None else problem.data.weights
        d, T = problem.shape
        X = self.location.covariates
        sizes = {
            "mean": int(self.location.mean),
            "rows": 0 if self.location.rows is None else d,
            "columns": 0 if self.location.columns is None else T,
            "coefficients": 0 if X is None else X.shape[1],
        }
        ends = np.cumsum([0, *sizes.values()])
        self.at_part = {name: slice(int(a), int(b)) for name, a, b in zip(sizes, ends[:-1], ends[1:], strict=True)}
        self.ridge = np.zeros(int(ends[-1]))
        self.ridge[self.at_part["rows"]] = self.location.rows or 0.0
        self.ridge[self.at_part["columns"]] = self.location.columns or 0.0

    def start(self) -> Floats:
        x = np.zeros(len(self.ridge))
        if self.location.mean and not self.problem.loss.binary:
            x[self.at_part["mean"]] = float(np.average(self.y, weights=np.broadcast_to(self.weights, self.y.shape)))
        return x

    def effects(self, x: Floats) -> Effects:
        d, T = self.problem.shape
        mean, rows, columns, coefficients = (x[at] for at in self.at_part.values())
        return Effects(
            float(mean[0]) if len(mean) else 0.0,
            rows.copy() if len(rows) else np.zeros(d),
            columns.copy() if len(columns) else np.zeros(T),
            coefficients.copy(),
        )

    def apply(self, x: Floats) -> Floats:
        """The predictions of every observation."""
        effects = self.effects(x)
        left = np.zeros((len(self.a), 2))
        left[:, 0], left[:, 1] = self.a, effects.mean * self.a
        left[: len(effects.rows), 1] += effects.rows
        right = np.column_stack([effects.columns, np.ones(len(effects.columns))])
        return np.asarray(self.data.apply(left, right, self.threads) + self.problem.of_covariates(effects.coefficients))

    def adjoint(self, z: Floats) -> Floats:
        """The adjoint of `apply`."""
        out, X = np.empty(len(self.ridge)), self.location.covariates
        if self.location.pinned:
            S1 = self.data.adjoint_times(z, np.ones((self.problem.shape[1], 1)), self.threads)[:, 0]
            if self.location.mean:
                out[self.at_part["mean"]] = self.a @ S1
            if self.location.rows is not None:
                out[self.at_part["rows"]] = S1[: self.problem.shape[0]]
        if self.location.columns is not None:
            found = self.data.adjoint_transposed_times(z, np.ascontiguousarray(self.a[:, None]), self.threads)
            out[self.at_part["columns"]] = found[:, 0]
        if X is not None:
            out[self.at_part["coefficients"]] = X.T @ z
        return out

    def diagonal(self, D: Floats) -> Floats:
        """The diagonal of the Hessian, approximately where rows are features."""
        out = self.adjoint(D)
        if "entries" not in self.data.traits and self.location.rows is not None:
            out[self.at_part["rows"]] = float(D.sum()) * self.problem.data.gain / self.problem.shape[0]
        if self.location.covariates is not None:
            out[self.at_part["coefficients"]] = (self.location.covariates**2).T @ D
        return np.abs(out)

    def at(self, x: Floats) -> tuple[float, Floats, Floats]:
        """The objective, the dual variables and the curvature of every observation."""
        w = self.apply(x)
        with np.errstate(all="ignore"):
            value = self.C * float(np.sum(self.weights * self.loss("value", self.y, w)))
            z = np.asarray(-self.C * self.weights * self.loss("gradient", self.y, w))
            D = np.asarray(self.C * self.weights * self.loss("hessian", self.y, w))
            if self.kinked:  # that of the parabola above the loss which touches it here
                D = np.maximum(D, np.abs(z) / np.maximum(np.abs(self.y - w), np.finfo(float).tiny))
        value += 0.5 * float(self.ridge @ (x * x))
        return value if math.isfinite(value) else math.inf, z, D


def of_unobserved(problem: Problem, effects: Effects) -> Effects:
    """The same effects, where rows and columns without observations have the mean of the others.

    Only effects without penalty: no observation determines them, and they include the mean of all data. With bounds,
    which hold for all entries, they are determined.
    """
    location = problem.location
    if location is None or problem.structure.box is not None or not problem.data.at_hand:
        return effects
    found = {"rows": effects.rows, "columns": effects.columns}
    for side, (name, ridge) in enumerate((("rows", location.rows), ("columns", location.columns))):
        if ridge != 0.0 or (side == 0 and "entries" not in problem.data.traits):
            continue
        seen = np.bincount(problem.data.groups(side), minlength=len(found[name])) > 0
        found[name] = np.where(seen, found[name], found[name][seen].mean())
    return replace(effects, rows=found["rows"], columns=found["columns"])


def residual_duals(problem: Problem, effects: Effects, n_threads: int) -> Floats:
    """−ω ℓ' of every observation where W is 0."""
    d, T = problem.shape
    w = problem.predict(np.zeros((d, 1)), np.zeros((T, 1)), n_threads, effects=effects)
    y = np.asarray(problem.data.values, dtype=np.float64)
    slopes = -CheckedLoss(problem.loss)("gradient", y, w)
    return slopes if problem.data.weights is None else np.asarray(slopes * problem.data.weights)
