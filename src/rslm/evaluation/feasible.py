"""Dual variables that are feasible where parts of the location are not penalised.

The mean requires Σ z = 0, row effects without penalty S 1 = 0, column effects Sᵀa = 0, and covariates Xᵀz = 0, with
S = M*z plus the multipliers of bounds. At a solution this holds up to the tolerance of the solver. The nearest feasible
z differs by a combination of effects, by least squares; a certificate then scales z down into the domain of the
conjugate, which it may leave by as little.
"""

from __future__ import annotations

import numpy as np

from rslm.linalg.conjugate_gradients import conjugate_gradients
from rslm.problem import Problem
from rslm.runtime.types import Floats, Indices64
from rslm.structures import Multipliers

EXACT, MOST, PASSES = 1e-7, 2000, 3  # two more passes remove what the first leaves
LITTLE = 1e-5  # by how much z may be scaled down without making the dual value useless


def feasible(problem: Problem, z: Floats, multipliers: Multipliers | None, n_threads: int) -> Floats:
    """The nearest feasible z."""
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

    wrong = constraints(z, sums)
    found, negligible = z, np.finfo(float).eps * float(np.linalg.norm(z)) * np.sqrt(max(len(wrong), 1))
    for _ in range(PASSES):
        if not float(np.linalg.norm(wrong)) > negligible:  # the rest is due to rounding
            break
        moved = conjugate_gradients(lambda x: constraints(combination(x)), wrong, lambda x: x, tol=EXACT, most=MOST)
        found = np.asarray(found - combination(moved))
        wrong = constraints(found, sums)
    bounded = multipliers is not None and len(multipliers.values) > 0
    if bounded or X is not None or rows + columns + location.mean != 1 or _inside(problem, found):
        return found
    groups = np.zeros(len(z), dtype=np.int64) if location.mean else data.groups(int(columns))
    return balanced(z, groups)


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
