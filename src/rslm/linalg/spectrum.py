"""Products with, and the largest singular value of, a sparse matrix S = diag(1/√p) · values · diag(1/√q).

Where there are bounds, their multipliers are added to the values.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from rslm.kernels import Columns
from rslm.kernels.scratch import room_like
from rslm.measurements import Entries, Measurement, Tasks
from rslm.problem import Problem
from rslm.runtime.interrupts import look
from rslm.runtime.types import Floats
from rslm.structures import Multipliers

DENSE = 64  # rows up to which S Sᵀ is formed


def weighted_gram(
    problem: Problem, values: Floats, n_threads: int, more: Multipliers | None = None
) -> Callable[[Floats], Floats]:
    """X ↦ S Sᵀ X; `more` are further entries of S, which are added."""
    p, q, data = problem.row_weights, problem.column_weights, problem.data
    scale = 1.0 if p is None else (1.0 / np.sqrt(p))[:, None]
    known = isinstance(data, Entries) or (isinstance(data, Tasks) and p is None and more is None)
    if not known:
        assert isinstance(data, Measurement)
        across = 1.0 if q is None else (1.0 / q)[:, None]

        def between(X: Floats) -> Floats:
            Y = data.adjoint_transposed_times(values, scale * X, n_threads)
            if more is not None:
                Y = Y + more.entries.gather(more.values, scale * X, n_threads)
            Z = data.adjoint_times(values, across * Y, n_threads)
            if more is not None:
                Z = Z + more.entries.scatter(more.values, across * Y, n_threads)
            return np.asarray(scale * Z)

        return between
    columns = problem.columns
    values = _divided(values, columns, q)
    if isinstance(data, Tasks):
        features, S = data.features, data.dual_matrix(values, n_threads)
        if S is not None:
            return lambda X: np.asarray(S.T @ (S @ X))
        return lambda X: features.transposed_times(
            columns.gram(values, features.times(X, n_threads), n_threads), n_threads
        )
    if more is None or not len(more.values):
        return lambda X: scale * columns.gram(values, scale * X, n_threads)
    others = _divided(more.values, more.entries, q)
    turned = others[more.entries.row_order]

    def gram(X: Floats) -> Floats:
        Y = more.entries.by_rows.scatter(turned, scale * X, n_threads)
        of_data = columns.gram(values, scale * X, n_threads, Y)  # Y is now Sᵀ X
        return scale * (of_data + more.entries.scatter(others, Y, n_threads))

    return gram


def _divided(values: Floats, columns: Columns, q: Floats | None) -> Floats:
    """The values of every column divided by √q."""
    if q is None:
        return values
    divided = room_like(values, np.float64)
    for start, end in columns.blocks():
        at = slice(columns.indptr[start], columns.indptr[end])
        counts = np.diff(columns.indptr[start : end + 1])
        np.multiply(values[at], np.repeat(1.0 / np.sqrt(q[start:end]), counts), out=divided[at])
    return divided


def frobenius_squared(problem: Problem, values: Floats, more: Multipliers | None) -> float:
    """‖S‖_F², or what is above it where entries of S are sums of two."""
    if not isinstance(problem.data, Entries):
        gram = weighted_gram(problem, values, 1, more)
        return sum(float(gram(unit[:, None])[k, 0]) for k, unit in enumerate(np.eye(problem.shape[0])))
    of_data = _frobenius_squared(problem, problem.columns, values)
    if more is None:
        return of_data
    return (math.sqrt(of_data) + math.sqrt(_frobenius_squared(problem, more.entries, more.values))) ** 2


def _frobenius_squared(problem: Problem, columns: Columns, values: Floats) -> float:
    p, q = problem.row_weights, problem.column_weights
    total = 0.0
    for start, end in columns.blocks():
        at = slice(columns.indptr[start], columns.indptr[end])
        squares = values[at].astype(np.float64) ** 2
        if p is not None:
            squares /= p[columns.index[at]]
        if q is not None:
            squares /= np.repeat(q[start:end], np.diff(columns.indptr[start : end + 1]))
        total += float(squares.sum())
    return total


def largest_singular_value(
    times: Callable[[Floats], Floats], transposed_times: Callable[[Floats], Floats], U: Floats
) -> tuple[float, str]:
    """σ₁ of a matrix that is given by its products, and how it was found; infinite if it was not."""
    square, method = largest_eigenvalue(lambda X: times(transposed_times(X)), U)
    return (math.inf if math.isnan(square) else math.sqrt(square)), method


def largest_eigenvalue(gram: Callable[[Floats], Floats], U: Floats) -> tuple[float, str]:
    """The largest eigenvalue of X ↦ S SᵀX from above, and how it was found; not a number if it was not."""
    d = len(U)
    if d <= DENSE:
        return max(float(np.linalg.eigvalsh(gram(np.eye(d)))[-1]), 0.0), "dense eigenvalues"
    products = 0

    def product(x: Floats) -> Floats:
        nonlocal products
        look()
        products += 1
        return gram(x.reshape(d, 1))[:, 0]

    # At the optimum the columns of U span the leading singular vectors; the rest lets others come in.
    lead = U[:, np.argmax(np.linalg.norm(U, axis=0))]
    begin = lead + np.random.default_rng(0).standard_normal(d) * (0.1 / math.sqrt(d) * np.linalg.norm(lead))
    operator = LinearOperator((d, d), matvec=product, dtype=np.float64)
    try:
        (value,), vectors = eigsh(operator, k=1, which="LA", v0=begin, tol=1e-11, ncv=min(d, 24))
    except ArpackError as failure:
        return math.nan, f"Frobenius norm, because Lanczos did not converge ({failure})"
    x = vectors[:, 0]
    # Some eigenvalue lies within the residual of the computed one: adding it keeps σ₁ from being too small.
    error = float(np.linalg.norm(product(x) - value * x))
    return max(float(value) + error, 0.0), f"Lanczos, {products} products, residual {error / max(value, 1e-300):.1e}"
