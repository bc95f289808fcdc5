"""Related regressions and one classification."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import partial

import numpy as np
import scipy.io
from cases import Array, Classes, Maker, Regressions, needed
from sklearn.datasets import load_digits


def split(X: Array, y: Array, tasks: Array, seed: int) -> Regressions:
    """75/25 within every task."""
    rng, held = np.random.default_rng(seed), np.zeros(len(y), dtype=bool)
    for t in np.unique(tasks):
        of = rng.permutation(np.flatnonzero(tasks == t))
        held[of[3 * len(of) // 4 :]] = True
    return Regressions(X[~held], y[~held], tasks[~held], X[held], y[held], tasks[held])


def school(seed: int) -> Regressions:
    file = scipy.io.loadmat(needed("school/school.mat"))
    X = [np.asarray(x, dtype=float) for x in file["X"].ravel()]
    y = [np.asarray(v, dtype=float).ravel() for v in file["Y"].ravel()]
    return split(np.vstack(X), np.concatenate(y), np.repeat(np.arange(len(y)), [len(v) for v in y]), seed)


def parkinsons(first: int, seed: int) -> Regressions:
    """Total UPDRS of 42 patients; features 0 to 2 are age, sex and day, the others describe the voice."""
    with needed("parkinsons/parkinsons_updrs.data").open() as file:
        table = np.array([[float(v) for v in row] for row in list(csv.reader(file))[1:]])
    X = np.delete(table, (0, 4, 5), axis=1)[:, first:]
    return split((X - X.mean(axis=0)) / X.std(axis=0), table[:, 5], table[:, 0].astype(int) - 1, seed)


def coefficients(kind: str, T: int, d: int, rng: np.random.Generator) -> Array:
    """One row a task, of unit size on average."""
    if kind == "unrelated":
        W = rng.standard_normal((T, d))
    elif kind == "identical":
        W = np.tile(rng.standard_normal(d), (T, 1))
    else:
        W = rng.standard_normal(d) + 0.7 / np.sqrt(3.0) * rng.standard_normal((T, 3)) @ rng.standard_normal((3, d))
    return np.asarray(W / np.sqrt(np.mean(np.sum(W**2, axis=1))))


def generated(kind: str, same_rows: bool, seed: int) -> Regressions:
    """40 tasks with 25 rows to learn from, 20 features, intercepts that vary, and half as much noise as signal."""
    rng = np.random.default_rng([seed, len(kind), same_rows])
    T, d, n, held = 40, 20, 25, 100
    W, b = coefficients(kind, T, d, rng), 2.0 + 0.3 * rng.standard_normal(T)
    parts = []
    for count in (n, held):
        X = np.tile(rng.standard_normal((count, d)), (T, 1)) if same_rows else rng.standard_normal((T * count, d))
        tasks = np.repeat(np.arange(T), count)
        y = np.einsum("nd,nd->n", X, W[tasks]) + b[tasks] + 0.7 * rng.standard_normal(len(X))
        parts += [X, y, tasks]
    return replace(Regressions(*parts), same_rows=same_rows)


def digits(count: int, seed: int) -> Classes:
    """Images of digits, `count` of them to learn from."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.split(order, [count])
    return Classes(X[train], y[train], X[test], y[test])


SETS: dict[str, Maker] = {
    "school": school,
    "parkinsons": partial(parkinsons, 0),
    "parkinsons-voice": partial(parkinsons, 3),
    "rank-3": partial(generated, "rank-3", False),
    "rank-3-same-rows": partial(generated, "rank-3", True),
    "unrelated": partial(generated, "unrelated", False),
    "identical": partial(generated, "identical", False),
    "digits-200": partial(digits, 200),
    "digits-900": partial(digits, 900),
}
