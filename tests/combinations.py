"""All losses × measurements × structures × weights on small random problems, against CVXPY at full rank.

    python tests/combinations.py            the whole table, in some minutes

A cell is solved, its gradient and Hessian product are compared with differences, and its certificate with the optimum
that CVXPY finds; or it is refused by the constructor of `Problem`.
"""

from __future__ import annotations

import itertools
import sys
import time
import warnings
from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from rslm import Problem, solve
from rslm.evaluation.objective import Objective
from rslm.losses import (
    Absolute,
    BoxDual,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Quantile,
    Square,
    SquaredHinge,
)
from rslm.measurements import Bilinear, Entries, Samples, Tasks
from rslm.structures import Affine, Box, Hankel, Linear, LinearStructure, Smooth, Smoothed, SoftBox, Symmetric, Toeplitz

D, T, C = 4, 4, 2.0
LOSSES = {
    "square": (Square(), lambda y, w: cp.sum_squares(y - w)),
    "absolute": (Absolute(), lambda y, w: cp.norm1(y - w)),
    "ε-insensitive": (EpsilonInsensitive(0.1), lambda y, w: cp.sum(cp.pos(cp.abs(y - w) - 0.1))),
    "huber": (Huber(0.5), lambda y, w: 0.5 * cp.sum(cp.huber(y - w, 0.5))),
    "quantile": (Quantile(0.3), lambda y, w: cp.sum(cp.maximum(0.3 * (y - w), 0.7 * (w - y)))),
    "logistic": (Logistic(), lambda y, w: cp.sum(cp.logistic(-cp.multiply(y, w)))),
    "hinge": (Hinge(), lambda y, w: cp.sum(cp.pos(1 - cp.multiply(y, w)))),
    "squared hinge": (SquaredHinge(), lambda y, w: cp.sum_squares(cp.pos(1 - cp.multiply(y, w)))),
}
MEASUREMENTS = ("entries", "tasks", "tasks with intercepts", "bilinear", "samples")
STRUCTURES = ("free", "W ≥ 0", "bounds", "Hankel", "Toeplitz", "symmetric", "own linear", "affine", "smooth")
SOLVERS = ("trust-region", "conjugate-gradient")


@dataclass
class Found:
    """What a cell has come to."""

    outcome: str
    iterations: int = 0
    seconds: float = 0.0
    above: float = 0.0  #: the primal value above the optimum, relative to it
    below: float = 0.0  #: the dual value below it
    beyond: float = 0.0  #: how far W is beyond its bounds
    gradient: float = 0.0  #: relative errors of derivatives
    hessian: float = 0.0


def structure_of(name, rng):
    return {
        "free": lambda: None,
        "W ≥ 0": lambda: Box(0.0, None),
        "bounds": lambda: Box(-0.4, 0.5),
        "Hankel": lambda: Hankel(D, T),
        "Toeplitz": lambda: Toeplitz(D, T),
        "symmetric": lambda: Symmetric(D),
        "own linear": lambda: Linear((D, T), 6, rng.standard_normal((D * T, 6))),
        "affine": lambda: Affine(Symmetric(D), rng.standard_normal((D, T))),
        "smooth": lambda: Smooth(Smooth.path(D), Smooth.path(T, 0.5)),
    }[name]()


def measured(name, structure, binary, rng):
    """The measurement, its targets, and what CVXPY makes of W, of parameters and of intercepts."""
    W = rng.standard_normal((D, 2)) @ rng.standard_normal((2, T))
    seen = np.sign if binary else lambda w: w
    if name == "entries":
        Y = np.where(rng.random((D, T)) < 0.8, seen(W), np.nan)
        i, j = np.nonzero(~np.isnan(Y))
        return Entries(Y), Y[i, j], lambda W, w, b: cp.hstack([W[a, c] for a, c in zip(i, j, strict=True)])
    if name.startswith("tasks"):
        X, t = rng.standard_normal((4 * T, D)), np.repeat(np.arange(T), 4)
        y, own = seen(np.einsum("pd,dp->p", X, W[:, t]) + 0.5), name != "tasks"
        data = Tasks(X, y, t, intercept=own)
        return data, y, lambda W, w, b: cp.hstack([X[p] @ W[:, t[p]] + own * b[t[p]] for p in range(len(y))])
    if name == "bilinear":
        A, B = rng.standard_normal((6, D)), rng.standard_normal((7, T))
        Y = np.where(rng.random((6, 7)) < 0.6, seen(A @ W @ B.T), np.nan)
        i, j = np.nonzero(~np.isnan(Y))
        return (
            Bilinear(Y, A, B),
            Y[i, j],
            lambda W, w, b: cp.hstack([A[a] @ W @ B[c] for a, c in zip(i, j, strict=True)]),
        )
    size = structure.size if isinstance(structure, LinearStructure) else D + T - 1
    y = np.where(rng.random(size) < 0.9, seen(rng.standard_normal(size)), np.nan)
    at = np.flatnonzero(~np.isnan(y))
    return Samples(y), y[at], lambda W, w, b: w[at]


def optimum(loss, y, predicted, structure, p, q):
    """The value that CVXPY finds."""
    W, w, b, extra, rules = cp.Variable((D, T)), None, cp.Variable(T), 0.0, []
    if isinstance(structure, LinearStructure):
        w = cp.Variable(structure.size)
        W = sum(w[k] * structure.matrix(e) for k, e in enumerate(np.eye(structure.size))) + structure.offset_matrix()
    if isinstance(structure, Box):
        lower, upper = structure.planes((D, T))
        rules = [lower <= W] + ([upper >= W] if np.isfinite(upper).all() else [])
    if isinstance(structure, Smooth):
        rows, columns = structure.rows.toarray(), structure.columns.toarray()
        extra = 0.5 * sum(cp.quad_form(W[:, k], rows, assume_PSD=True) for k in range(T))
        extra += 0.5 * sum(cp.quad_form(W[k, :], columns, assume_PSD=True) for k in range(D))
    weighted = np.sqrt(np.outer(p, q))
    value = C * loss(y, predicted(W, w, b)) + 0.5 * cp.square(cp.norm(cp.multiply(weighted, W), "nuc")) + extra
    problem = cp.Problem(cp.Minimize(value), rules)
    return float(problem.solve(solver=cp.CLARABEL))


def smooth_form(problem):
    """The problem with kinks rounded, bounds soft and structure smoothed: what derivatives are taken of."""
    loss, structure = problem.loss, problem.structure
    if isinstance(loss, BoxDual) and loss.interval.rounding == 0:
        loss = loss.rounded(0.3)
    if isinstance(structure, Box):
        structure = SoftBox(structure, 0.1)
    if isinstance(structure, LinearStructure):
        structure = Smoothed(structure, 0.05)
    return Problem(loss, problem.data, structure, problem.C, problem.row_weights, problem.column_weights)


def derivative_errors(problem, rng):
    """Of the gradient and of the Hessian product, relative to their size and to that of the value."""
    U, xi = rng.standard_normal((2, D, 2))
    U, h = U / np.linalg.norm(U), 1e-5
    at = [Objective(problem, 1).evaluate(U + s * h * xi) for s in (0, 1, -1)]
    slope, moved = (at[1].value - at[2].value) / (2 * h), (at[1].gradient - at[2].gradient) / (2 * h)
    size = abs(at[0].value) + float(np.linalg.norm(at[0].gradient)) + 1e-3  # a loss of 0 has rounding errors alone
    gradient = abs(slope - float(np.vdot(at[0].gradient, xi))) / size
    return gradient, float(np.linalg.norm(moved - at[0].hessian_product(xi))) / (float(np.linalg.norm(moved)) + size)


def cell(loss_name, measurement, structure_name, weighted, solver, seed=0, max_iter=2000, max_time=4.0):
    """One combination; a refusal is an outcome too."""
    rng = np.random.default_rng([seed, *(ord(c) for c in loss_name + measurement + structure_name), weighted])
    loss, atom = LOSSES[loss_name]
    structure = structure_of(structure_name, rng)
    data, y, predicted = measured(measurement, structure, loss.binary, rng)
    p, q = (rng.uniform(0.5, 2.0, n) if weighted else np.ones(n) for n in (D, T))
    weights = (p, q) if weighted else (None, None)
    try:
        problem = Problem(loss, data, structure, C, *weights)
    except (TypeError, ValueError) as refusal:
        return Found(f"refused: {refusal}")
    began = time.perf_counter()
    result = solve(problem, min(D, T), random_state=0, max_iter=max_iter, max_time=max_time, solver=solver, n_threads=1)
    seconds = time.perf_counter() - began
    best, certificate = optimum(atom, y, predicted, structure, p, q), result.certificate
    beyond = 0.0
    if isinstance(structure, Box):
        W = result.left @ result.V.T
        beyond = float(np.abs(W - np.clip(W, *structure.planes((D, T)))).max())
    above, below = (certificate.primal - best) / best, (best - certificate.dual) / best
    errors = derivative_errors(smooth_form(problem), rng)
    return Found(result.outcome.value, result.n_iter, seconds, above, below, beyond, *errors)


def cells():
    """All of them."""
    return itertools.product(LOSSES, MEASUREMENTS, STRUCTURES, (False, True), SOLVERS)


def main():
    print(f"{'loss':14}{'measurement':23}{'structure':12}{'weights':8}{'solver':20}outcome")
    for loss, measurement, structure, weighted, solver in cells():
        found = cell(loss, measurement, structure, weighted, solver)
        row = f"{loss:14}{measurement:23}{structure:12}{'p, q' if weighted else '':8}{solver:20}{found.outcome:11.60}"
        if not found.outcome.startswith("refused"):
            row += f"{found.iterations:5d} {found.seconds:6.2f} s  above {found.above:8.1e}  below {found.below:8.1e}"
            row += f"  derivatives {found.gradient:.0e} {found.hessian:.0e}  beyond {found.beyond:.0e}"
        print(row, flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
