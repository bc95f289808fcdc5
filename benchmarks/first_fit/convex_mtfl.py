"""Convex multi-task feature learning (Argyriou, Evgeniou and Pontil), its weight chosen by cross-validation."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from cases import Array, Regressions

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from paper.methods.tasks.mtfl import WARM, Moments, path

WEIGHTS = tuple(2.0**k for k in range(-8, 17))
FOLDS = 5
FLOORS = WARM[::2]


def models(X: Array, y: Array, tasks: Array, T: int, weights: tuple[float, ...]) -> list[tuple[Array, Array]]:
    """Coefficients and intercepts for every weight."""
    data = Moments.of(X, y, tasks, T)
    return [(step.W, data.intercepts(step.W)) for step in path(data, weights, FLOORS)]


def predict(model: tuple[Array, Array], X: Array, tasks: Array) -> Array:
    W, b = model
    return np.asarray(np.einsum("nd,nd->n", X, W[tasks]) + b[tasks])


def convex_mtfl(case: Regressions) -> Array:
    T = int(case.tasks.max()) + 1
    fold = np.random.default_rng(0).permutation(len(case.y)) % FOLDS
    errors = np.zeros(len(WEIGHTS))
    for k in range(FOLDS):
        X, y, tasks = (a[fold != k] for a in (case.X, case.y, case.tasks))
        found = models(X, y, tasks, T, WEIGHTS)
        held = fold == k
        errors += [float(np.sum((predict(m, case.X[held], case.tasks[held]) - case.y[held]) ** 2)) for m in found]
    found = models(case.X, case.y, case.tasks, T, WEIGHTS[: int(np.argmin(errors)) + 1])
    return predict(found[-1], case.X_test, case.tasks_test)
