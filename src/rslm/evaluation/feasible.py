"""Dual variables that are feasible where parts of the location are not penalised.

The mean requires Σ z = 0, row effects without penalty S 1 = 0, column effects Sᵀa = 0, and covariates Xᵀz = 0, with
S = M*z plus the multipliers of bounds. At a solution this holds up to the tolerance of the solver. z is corrected by a
combination of effects, by least squares in a metric in which those z hardly move that are near the end of the domain of
the conjugate. A certificate then scales z down into that domain, which it may leave by a little.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rslm.linalg.conjugate_gradients import conjugate_gradients
from rslm.losses.checked import CheckedLoss
from rslm.problem import Problem
from rslm.runtime.types import Floats, Indices64
from rslm.structures import Multipliers

EXACT, MOST, PASSES = 1e-7, 2000, 3  # two more passes remove what the first leaves
ROUNDING = 10.0  # of a sum, relative to that of one number
LITTLE = 1e-5  # by how much z may be scaled down without making the dual value useless
WRONG = 1e-8  # norm of violated constraints relative to that of z, above which the dual value would be no bound
STIFF = 1e-6  # least room of a dual variable, relative to the largest


def feasible(
    problem: Problem,
    z: Floats,
    multipliers: Multipliers | None,
    n_threads: int,
    predictions: Callable[[], Floats] | None = None,
) -> Floats:
    """A feasible z near the given one; the `predictions` of all observations are needed only for some losses."""
    location = problem.location
    assert location is not None
    data, a = problem.data.located()
    T, X = problem.shape[1], location.covariates
    rows, columns = location.rows == 0.0, location.columns == 0.0
    ones, left = np.ones((T, 1)), np.ascontiguousarray(a[:, None])
    sums: tuple[Floats, Floats] = np.zeros(len(a)), np.zeros(T)
    if multipliers is not None and len(multipliers.values):
        at, values = multipliers.entries, multipliers.values
        sums = at.scatter(values, ones, n_threads)[:, 0], at.gather(values, left, n_threads)[:, 0]

    def constraints(values: Floats, of_bounds: tuple[Floats, Floats] | None = None) -> Floats:
        parts = []
        if rows or location.mean:
            S1 = data.adjoint_times(values, ones, n_threads)[:, 0]
            S1 = S1 if of_bounds is None else S1 + of_bounds[0]
            parts.append(S1[: problem.shape[0]] if rows else np.zeros(0))
            parts.append(np.array([a @ S1]) if location.mean else np.zeros(0))
        if columns:
            Sa = data.adjoint_transposed_times(values, left, n_threads)[:, 0]
            parts.append(Sa if of_bounds is None else Sa + of_bounds[1])
        if X is not None:
            parts.append(X.T @ values)
        return np.concatenate(parts) if parts else np.zeros(0)

    def combination(x: Floats) -> Floats:
        """The adjoint of `constraints`."""
        b, at = np.zeros(len(a)), 0
        if rows:
            b[: problem.shape[0]], at = x[: problem.shape[0]], problem.shape[0]
        if location.mean:
            b, at = b + x[at] * a, at + 1
        c: Floats = np.zeros(T)
        if columns:
            c, at = x[at : at + T], at + T
        w = data.apply(np.column_stack([a, b]), np.column_stack([c, np.ones(T)]), n_threads)
        return w if X is None else np.asarray(w + X @ x[at:])

    bounded = multipliers is not None and len(multipliers.values) > 0
    sides = [side for side, free in enumerate((rows, columns)) if free and ("entries" in data.traits or side == 1)]
    lost = np.zeros(len(z), dtype=bool)
    if problem.loss.binary and not bounded:
        lost = _of_one_class(problem, [data.groups(side) for side in sides])
        z = np.where(lost, 0.0, z)
    wrong = constraints(z, sums)
    rounding = ROUNDING * np.finfo(float).eps * float(np.linalg.norm(z)) * np.sqrt(max(len(wrong), 1))
    size = float(np.linalg.norm(wrong))
    if not size > rounding:
        return z
    found, room = z, np.where(lost, 0.0, _room(problem, z, predictions))
    for _ in range(PASSES):
        moved = conjugate_gradients(
            lambda x: constraints(room * combination(x)), wrong, lambda x: x, tol=max(EXACT, rounding / size), most=MOST
        )
        corrected = np.asarray(found - room * combination(moved))
        rest = constraints(corrected, sums)
        if not float(np.linalg.norm(rest)) < size:  # the rest is due to rounding
            break
        found, wrong, size = corrected, rest, float(np.linalg.norm(rest))
        if not size > rounding:
            break
    if not bounded and size > WRONG * float(np.linalg.norm(z)):  # z = 0 is feasible, and its bound is the least loss
        return np.zeros_like(z)
    if bounded or X is not None or rows + columns + location.mean != 1 or _inside(problem, found):
        return found
    groups = np.zeros(len(z), dtype=np.int64) if location.mean else data.groups(int(columns))
    return balanced(z, groups)


def _of_one_class(problem: Problem, groups: list[Indices64]) -> NDArray[np.bool_]:
    """The observations whose dual variables can only be 0, because all of a group with sum 0 have one sign.

    A row that has only ones pulls its effect to infinity, and its loss to 0.
    """
    up = np.asarray(problem.data.values) > 0
    lost = np.zeros(len(up), dtype=bool)
    while True:
        before = np.count_nonzero(lost)
        for each in groups:
            n = int(each.max(initial=-1)) + 1
            counts = [np.bincount(each[side & ~lost], minlength=n) for side in (up, ~up)]
            lost |= ((counts[0] == 0) | (counts[1] == 0))[each]
        if np.count_nonzero(lost) == before:  # else others may be of one class now
            return lost


def _room(problem: Problem, z: Floats, predictions: Callable[[], Floats] | None) -> Floats:
    """How far each dual variable may move, in units of the largest: the curvature of the loss, or the distance to the
    end of the domain of the conjugate."""
    loss, data = problem.loss, problem.data
    weights = np.ones(len(z)) if data.weights is None else data.weights
    room = weights
    if loss.interval is not None and not loss.quadratic:
        s = z / (problem.C * weights)
        s = np.where(data.values < 0, -s, s) if loss.interval.mirrored else s
        room = weights * np.minimum(s - loss.interval.lower, loss.interval.upper - s)
    elif not loss.quadratic and loss.smooth and predictions is not None:
        y = np.asarray(data.values, dtype=np.float64)
        room = weights * np.asarray(CheckedLoss(loss)("hessian", y, predictions()))
    largest = float(room.max(initial=0.0))
    return np.maximum(room / largest, STIFF) if 0.0 < largest < np.inf else np.ones(len(z))


def _inside(problem: Problem, z: Floats) -> bool:
    """Whether z, scaled down a little, is in the domain of the conjugate."""
    y, weights = np.asarray(problem.data.values, dtype=np.float64), problem.data.weights
    s = -(1.0 - LITTLE) * z / problem.C
    return bool(np.isfinite(problem.loss.conjugate(y, s if weights is None else s / weights)).all())


def balanced(z: Floats, groups: Indices64) -> Floats:
    """z with sum 0 in every group; scaling down the sign with the larger sum is feasible."""
    up, down = (np.bincount(groups, np.maximum(side, 0.0)) for side in (z, -z))
    less = np.minimum(up, down)
    factors = [(less / np.where(side > 0, side, 1.0))[groups] for side in (up, down)]
    return np.asarray(z * np.where(z > 0, factors[0], factors[1]))
