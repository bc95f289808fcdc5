"""Mean, row effects and column effects with ridges, chosen by cross-validation: what a low-rank part has to beat."""

from __future__ import annotations

from itertools import product

import numpy as np
from cases import Array
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

Triplets = tuple[Array, Array, Array]  # rows, columns, values
FOLDS = 5
LEAST, MOST = -10.0, 24.0  # exponents of 2 of the ridges


class Effects:
    """Minimises Σ (x_ij − μ − a_i − b_j)² + p ‖a‖² + q ‖b‖² over the given entries, μ free."""

    def __init__(self, shape: tuple[int, int], entries: Triplets) -> None:
        rows, cols, values = entries
        self.centre = float(values.mean())
        pattern = sparse.csr_array((np.ones(len(values)), (rows, cols)), shape=shape)
        ones = sparse.csr_array(np.ones((1, shape[0])))
        self.incidence = sparse.csr_array(sparse.vstack([ones @ pattern, pattern]))  # μ is one more row effect
        self.transposed = sparse.csr_array(self.incidence.T)
        self.of_rows: Array = np.bincount(rows, minlength=shape[0]).astype(float)
        self.of_cols: Array = np.bincount(cols, minlength=shape[1]).astype(float)
        left = values - self.centre
        self.right_rows = np.append(left.sum(), np.bincount(rows, left, shape[0]))
        self.right_cols = np.bincount(cols, left, shape[1])
        self.start = np.zeros(shape[0] + 1)

    def solve(self, p: float, q: float) -> tuple[float, Array, Array]:
        """μ, a and b: conjugate gradients in μ and a, with b eliminated, from the last answer."""
        size, n = len(self.start), self.of_rows.sum()
        pivots = 1.0 / (self.of_cols + q)

        def times(x: Array) -> Array:
            mu, a = x[0], x[1:]
            own = np.append(n * mu + self.of_rows @ a, self.of_rows * (mu + a) + p * a)
            return np.asarray(own - self.incidence @ (pivots * (self.transposed @ x)))

        right = self.right_rows - self.incidence @ (pivots * self.right_cols)
        diagonal = np.append(n, self.of_rows + p) - self.incidence.power(2) @ pivots
        inverse = sparse.diags_array(1.0 / np.maximum(diagonal, 1e-3))
        operator = LinearOperator((size, size), matvec=times, dtype=float)
        self.start, _ = cg(operator, right, self.start, rtol=1e-7, maxiter=300, M=inverse)
        b = pivots * (self.right_cols - self.transposed @ self.start)
        return self.centre + self.start[0], self.start[1:], b


def predict(found: tuple[float, Array, Array], rows: Array, cols: Array) -> Array:
    mu, a, b = found
    return np.asarray(mu + a[rows] + b[cols])


def chosen(shape: tuple[int, int], entries: Triplets, seed: int = 0) -> tuple[float, Array, Array]:
    """The fit to all entries with the ridges of the least cross-validated error."""
    fold = np.random.default_rng(seed).permutation(len(entries[2])) % FOLDS
    models = [Effects(shape, tuple(a[fold != k] for a in entries)) for k in range(FOLDS)]
    held = [tuple(a[fold == k] for a in entries) for k in range(FOLDS)]
    known: dict[tuple[float, float], float] = {}

    def error(at: tuple[float, float]) -> float:
        if at not in known:
            known[at] = sum(
                float(np.sum((predict(model.solve(2.0 ** at[0], 2.0 ** at[1]), rows, cols) - values) ** 2))
                for model, (rows, cols, values) in zip(models, held, strict=True)
            )
        return known[at]

    best = (3.0, 3.0)
    for step in (6.0, 3.0, 1.5, 0.75):  # a pattern search: move while a neighbour is better, then look closer
        while True:
            near = [(best[0] + step * i, best[1] + step * j) for i, j in product((-1, 0, 1), repeat=2) if i or j]
            near = [(min(max(p, LEAST), MOST), min(max(q, LEAST), MOST)) for p, q in near]
            better = min(near, key=error)
            if error(better) >= error(best):
                break
            best = better
    return Effects(shape, entries).solve(2.0 ** best[0], 2.0 ** best[1])
