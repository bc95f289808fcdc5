"""Many related regressions: School and Parkinsons as in the paper's figure, and a large generated case.

    python benchmarks/multitask.py rank      # test error and duality gap against the rank, ten splits
    python benchmarks/multitask.py large     # 10,000 tasks, 500 sparse features, 5 million rows

The error is the mean square over the variance of the held-out targets (NMSE), 75/25 splits within every task. Convex
multi-task feature learning is the method of Argyriou, Evgeniou and Pontil, alternating between W and a matrix of the
features, traced over its weight; all methods have the same intercepts. C and the weights are chosen by test error in
all methods alike, as the paper's figure shows whole curves.
"""

from __future__ import annotations

import csv
import sys
import time
from typing import Any

import numpy as np
import scipy.io
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import Ridge

from common import SHARED, forget_peak, needed, peak_memory, report
from rslm import MultiTaskRegressor

Array = NDArray[Any]
Rows = tuple[Array, Array, Array]  # features, targets, tasks
SPLITS = 10
PATH = [1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1e3, 1e4]


def school() -> Rows:
    file = scipy.io.loadmat(needed(SHARED / "data" / "school" / "school.mat"))
    X = [np.asarray(x, dtype=float) for x in file["X"].ravel()]
    y = [np.asarray(v, dtype=float).ravel() for v in file["Y"].ravel()]
    return np.vstack(X), np.concatenate(y), np.repeat(np.arange(len(y)), [len(v) for v in y])


def parkinsons() -> Rows:
    """Total UPDRS of 42 patients from 16 features of their voice, all of one size."""
    with needed(SHARED / "data" / "parkinsons" / "parkinsons_updrs.data").open() as file:
        table = np.array([[float(v) for v in row] for row in list(csv.reader(file))[1:]])
    X = table[:, 6:]
    return (X - X.mean(axis=0)) / X.std(axis=0), table[:, 5], table[:, 0].astype(int) - 1


def split(rows: Rows, seed: int) -> tuple[Rows, Rows]:
    X, y, tasks = rows
    rng, held = np.random.default_rng(seed), np.zeros(len(y), dtype=bool)
    for t in np.unique(tasks):
        of = rng.permutation(np.flatnonzero(tasks == t))
        held[of[3 * len(of) // 4 :]] = True
    return (X[~held], y[~held], tasks[~held]), (X[held], y[held], tasks[held])


def nmse(prediction: Array, y: Array) -> float:
    return float(np.mean((prediction - y) ** 2) / np.var(y))


def of_tasks(W: Array, b: Array, test: Rows) -> float:
    return nmse(np.einsum("nd,nd->n", test[0], W[test[2]]) + b[test[2]], test[1])


def convex_mtfl(train: Rows, weight: float) -> tuple[Array, Array]:
    """min Σ (y − x·w_t − b_t)² + weight · tr(Wᵀ D⁻¹ W), tr D = 1, by alternating between W and D = (WWᵀ)^½ / trace."""
    X, y, tasks = train
    d, T = X.shape[1], int(tasks.max()) + 1
    parts = [(X[tasks == t], y[tasks == t]) for t in range(T)]
    means = [(x.mean(axis=0), v.mean()) for x, v in parts]
    grams = np.stack([(x - m).T @ (x - m) for (x, _), (m, _) in zip(parts, means, strict=True)])
    rights = np.stack([(x - m).T @ (v - c) for (x, v), (m, c) in zip(parts, means, strict=True)])
    D = np.eye(d) / d
    for _ in range(300):
        root = np.linalg.cholesky(D)
        systems = root.T @ grams @ root + weight * np.eye(d)
        W = np.linalg.solve(systems, (rights @ root)[:, :, None])[:, :, 0] @ root.T
        values, vectors = np.linalg.eigh(W.T @ W + 1e-10 * np.eye(d))
        half = vectors * np.sqrt(np.maximum(values, 1e-14)) @ vectors.T
        new = half / np.trace(half)
        done = np.linalg.norm(new - D) < 1e-6
        D = new
        if done:
            break
    return W, np.array([c - m @ w for (m, c), w in zip(means, W, strict=True)])


def per_task(train: Rows, alpha: float) -> tuple[Array, Array]:
    X, y, tasks = train
    models = [Ridge(alpha).fit(X[tasks == t], y[tasks == t]) for t in range(int(tasks.max()) + 1)]
    return np.stack([m.coef_ for m in models]), np.array([m.intercept_ for m in models])


def rank() -> None:
    rows: list[dict[str, Any]] = []
    for name, data, C in (("school", school(), 0.1), ("school", school(), 10.0), ("parkinsons", parkinsons(), 10.0)):
        splits = [split(data, seed) for seed in range(SPLITS)]
        d = data[0].shape[1]
        for r in [k for k in (1, 2, 3, 5, 7, 10, 15, 20, 28) if k <= d]:
            errors, gaps, seconds = [], [], []
            for train, test in splits:
                began = time.perf_counter()
                model = MultiTaskRegressor(r, C, random_state=0).fit(train[0], train[1], tasks=train[2])
                seconds.append(time.perf_counter() - began)
                errors.append(nmse(model.predict(test[0], tasks=test[2]), test[1]))
                gaps.append(model.certificate_.relative_gap)
            rows.append(
                _row(name, f"rank {r}, C {C:g}", errors) | {"largest gap": max(gaps), "s": float(np.mean(seconds))}
            )
            print(rows[-1], flush=True)
        if C == 0.1:
            continue
        for method, f in {"convex MTFL": convex_mtfl, "ridge, task by task": per_task}.items():
            curve = {a: [of_tasks(*f(train, a), test) for train, test in splits] for a in PATH}
            best = min(curve, key=lambda a: float(np.mean(curve[a])))
            rows.append(_row(name, f"{method}, best of {len(PATH)} weights", curve[best]))
            print(rows[-1], flush=True)
        pooled = [nmse(Ridge(1.0).fit(train[0], train[1]).predict(test[0]), test[1]) for train, test in splits]
        rows.append(_row(name, "ridge, all tasks as one", pooled))
    report("multitask-rank", rows, splits=SPLITS)


def _row(name: str, method: str, errors: list[float]) -> dict[str, Any]:
    return {"data": name, "method": method, "NMSE": f"{np.mean(errors):.4f} ± {np.std(errors):.4f}"}


def large() -> None:
    """The time of a fit beside that of the products X U and Xᵀ G that it cannot avoid."""
    rng = np.random.default_rng(0)
    tasks_, rows_, d, r, stored = 10_000, 5_000_000, 500, 10, 10
    index = rng.integers(0, d, (rows_, stored), dtype=np.int32)
    values = rng.standard_normal((rows_, stored))
    X = sparse.csr_array((values.ravel(), index.ravel(), np.arange(0, rows_ * stored + 1, stored)), shape=(rows_, d))
    tasks = np.sort(rng.integers(0, tasks_, rows_))
    U, V = rng.standard_normal((d, r)) / np.sqrt(d), rng.standard_normal((tasks_, r))
    y = np.einsum("nk,nk->n", X @ U, V[tasks]) + 0.3 * rng.standard_normal(rows_)
    forget_peak()
    before, began = peak_memory(), time.perf_counter()
    model = MultiTaskRegressor(r, 1.0, fit_intercept=False, random_state=0, tol=1e-3).fit(X, y, tasks=tasks)
    seconds, memory = time.perf_counter() - began, (peak_memory() - before) / 1e6
    began = time.perf_counter()
    F = X @ U
    X.T @ F
    product = time.perf_counter() - began
    pairs = float(model.history_["evaluations"][-1] + model.history_["hessian_products"][-1])
    row = {"s": seconds, "MB": memory, "MB of X": (X.data.nbytes + X.indices.nbytes) / 1e6, "outcome": model.outcome_}
    row |= {"pairs of products": pairs, "s of these": pairs * product, "× these": seconds / (pairs * product)}
    report("multitask-large", [row])


if __name__ == "__main__":
    studies = {"rank": rank, "large": large}
    for study in sys.argv[1:] or list(studies):
        studies[study]()
