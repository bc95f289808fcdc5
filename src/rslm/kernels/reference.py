"""NumPy twins of the compiled kernels, one plain loop over columns each: the oracle of the tests."""

from __future__ import annotations

import numpy as np

from rslm._typing import Floats, Indices32
from rslm.kernels.columns import Columns


def evaluate(c: Columns, y: Floats, U: Floats, ridge: Floats) -> tuple[float, Floats, Floats, Floats]:
    """Return Σ residual², V, the residual of every entry, and Σ_t residual_it v_t by rows."""
    V, residual, by_rows = np.zeros((c.shape[1], U.shape[1])), np.zeros(c.entries), np.zeros(U.shape)
    for t, (rows, at) in enumerate(_columns(c)):
        X = U[rows]
        V[t] = np.linalg.solve(X.T @ X + ridge[t] * np.eye(U.shape[1]), X.T @ y[at])
        residual[at] = y[at] - X @ V[t]
        np.add.at(by_rows, rows, np.outer(residual[at], V[t]))
    return float(residual @ residual), V, residual, by_rows


def derivative(c: Columns, y: Floats, U: Floats, ridge: Floats, dU: Floats) -> Floats:
    """The directional derivative of −by_rows along dU."""
    _, V, residual, _ = evaluate(c, y, U, ridge)
    out = np.zeros(U.shape)
    for t, (rows, at) in enumerate(_columns(c)):
        X, dX, v = U[rows], dU[rows], V[t]
        M = X.T @ X + ridge[t] * np.eye(U.shape[1])
        dv = np.linalg.solve(M, dX.T @ residual[at] - X.T @ (dX @ v))
        np.add.at(out, rows, np.outer(dX @ v + X @ dv, v) - np.outer(residual[at], dv))
    return out


def solve_with_factors(c: Columns, X: Floats, ridge: Floats, rhs: Floats) -> Floats:
    """(X_tᵀX_t + ridge_t)⁻¹ rhs_t for every column."""
    out = np.zeros(rhs.shape)
    for t, (rows, _) in enumerate(_columns(c)):
        out[t] = np.linalg.solve(X[rows].T @ X[rows] + ridge[t] * np.eye(X.shape[1]), rhs[t])
    return out


def gram(c: Columns, s: Floats, X: Floats) -> Floats:
    """S Sᵀ X."""
    S = np.zeros(c.shape)
    for t, (rows, at) in enumerate(_columns(c)):
        np.add.at(S[:, t], rows, s[at])
    return S @ (S.T @ X)


def predict(c: Columns, U: Floats, V: Floats) -> Floats:
    """u_iᵀ v_t at every entry of the pattern."""
    out = np.zeros(c.entries)
    for t, (rows, at) in enumerate(_columns(c)):
        out[at] = U[rows] @ V[t]
    return out


def _columns(c: Columns) -> list[tuple[Indices32, slice]]:
    bounds = zip(c.indptr[:-1], c.indptr[1:], strict=True)
    return [(c.index[start:end], slice(start, end)) for start, end in bounds]
