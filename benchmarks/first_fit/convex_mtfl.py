"""Convex multi-task feature learning (Argyriou, Evgeniou and Pontil), its weight chosen by cross-validation."""

from __future__ import annotations

import numpy as np
from cases import Array, Regressions

WEIGHTS = 2.0 ** np.arange(16.0, -9.0, -1.0)  # from the largest on, each from the answer of the one before
FOLDS = 5


def moments(X: Array, y: Array, tasks: Array, T: int) -> tuple[Array, Array, Array, Array]:
    """Means of features and targets of every task, and Xᵀ X and Xᵀ y about them."""
    d = X.shape[1]
    of_x, of_y, grams, rights = np.zeros((T, d)), np.full(T, y.mean()), np.zeros((T, d, d)), np.zeros((T, d))
    for t in np.unique(tasks):
        x, v = X[tasks == t], y[tasks == t]
        of_x[t], of_y[t] = x.mean(axis=0), v.mean()
        x, v = x - of_x[t], v - of_y[t]
        grams[t], rights[t] = x.T @ x, x.T @ v
    return of_x, of_y, grams, rights


def alternate(grams: Array, rights: Array, weight: float, D: Array) -> tuple[Array, Array]:
    """W = argmin of squares + weight Σ w_tᵀ D⁻¹ w_t, then D = (Wᵀ W)^½ over its trace; D stays positive definite."""
    eye = np.eye(len(D))
    for floor in np.geomspace(1e-2, 1e-5, 100):
        root = np.linalg.cholesky(D)
        systems = root.T @ grams @ root + weight * eye
        W = np.linalg.solve(systems, (rights @ root)[:, :, None])[:, :, 0] @ root.T
        squares, vectors = np.linalg.eigh(W.T @ W)
        values = np.sqrt(np.maximum(squares, 0.0))
        values = np.hypot(values, floor * values.sum())
        D = vectors * (values / values.sum()) @ vectors.T
    return W, D


def path(X: Array, y: Array, tasks: Array, T: int, upto: int) -> list[tuple[Array, Array]]:
    """Coefficients and intercepts for the first weights."""
    of_x, of_y, grams, rights = moments(X, y, tasks, T)
    D, found = np.eye(X.shape[1]) / X.shape[1], []
    for weight in WEIGHTS[:upto]:
        W, D = alternate(grams, rights, float(weight), D)
        found.append((W, of_y - np.einsum("td,td->t", of_x, W)))
    return found


def predict(model: tuple[Array, Array], X: Array, tasks: Array) -> Array:
    W, b = model
    return np.asarray(np.einsum("nd,nd->n", X, W[tasks]) + b[tasks])


def convex_mtfl(case: Regressions) -> Array:
    T = int(case.tasks.max()) + 1
    fold = np.random.default_rng(0).permutation(len(case.y)) % FOLDS
    errors = np.zeros(len(WEIGHTS))
    for k in range(FOLDS):
        X, y, tasks = (a[fold != k] for a in (case.X, case.y, case.tasks))
        models = path(X, y, tasks, T, len(WEIGHTS))
        held = fold == k
        errors += [float(np.sum((predict(m, case.X[held], case.tasks[held]) - case.y[held]) ** 2)) for m in models]
    models = path(case.X, case.y, case.tasks, T, int(np.argmin(errors)) + 1)
    return predict(models[-1], case.X_test, case.tasks_test)
