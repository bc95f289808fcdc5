"""Starting points of a search: the leading singular vectors of what is not explained yet."""

from __future__ import annotations

import math

import numpy as np

from rslm.evaluation.dual import dual_gram
from rslm.evaluation.objective import Objective
from rslm.losses.checked import CheckedLoss, usual_size
from rslm.problem import Problem
from rslm.runtime.types import Floats

PASSES, ADDED = 4, 0.05  # of subspace iteration for new columns, and their share of the norm of U


def guessed(problem: Problem) -> Floats:
    """The targets as the loss takes them, where there are no effects."""
    values = np.asarray(problem.data.values, dtype=np.float64)
    return CheckedLoss(problem.loss).guess(values, usual_size(values))


def leading_pair(problem: Problem, z: Floats, n_threads: int, seed: int) -> tuple[Floats, Floats]:
    """The first singular vectors of the matrix with the values z at the observed entries."""
    gram = dual_gram(problem, z, n_threads)
    u: Floats = np.random.default_rng(seed).standard_normal((problem.shape[0], 4))
    for _ in range(PASSES):
        u = gram(np.linalg.qr(u)[0])
    u = np.linalg.svd(u, full_matrices=False)[0][:, :1]
    v = problem.data.adjoint_transposed_times(z, np.ascontiguousarray(u), n_threads)
    return u[:, 0], v[:, 0] / max(float(np.linalg.norm(v)), np.finfo(float).tiny)


def grown(problem: Problem, point: Floats, added: int, n_threads: int, seed: int) -> Floats:
    """The point with `added` columns of U: the leading singular vectors of the dual matrix that U does not span."""
    objective = Objective(problem, n_threads)
    evaluation = objective.evaluate(point)
    U, effects = evaluation.U, evaluation.effects
    gram = dual_gram(problem, evaluation.dual(), n_threads)
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(U)[0]
    X: Floats = rng.standard_normal((len(U), added + 2))
    for _ in range(PASSES):
        X = X - basis @ (basis.T @ X)
        X = gram(np.linalg.qr(X)[0])
    X = X - basis @ (basis.T @ X)
    new = np.linalg.svd(X, full_matrices=False)[0][:, :added]
    size = math.sqrt(ADDED / U.shape[1])
    joined = np.hstack([U, size * new])
    return objective.point(joined / np.linalg.norm(joined), effects)
