"""NumPy versions of the compiled kernels, each a simple loop over columns: the reference for the tests."""

from __future__ import annotations

import numpy as np

from rslm.kernels.columns import Columns
from rslm.kernels.pieces import Piece
from rslm.runtime.types import Floats, Indices32


def evaluate(
    c: Columns, y: Floats, U: Floats, ridge: Floats, weight: Floats | None = None, pinned: bool = False
) -> tuple[float, Floats, Floats, Floats]:
    """Return Σ weight (y − X v)², V, weight (y − X v) of every entry, and Σ_t of it times v_t by rows."""
    V, s, by_rows = np.zeros((c.shape[1], U.shape[1])), np.zeros(c.entries), np.zeros(U.shape)
    weight, squares = np.ones(c.entries) if weight is None else weight, 0.0
    for t, (rows, at) in enumerate(_columns(c)):
        X, ridges = U[rows], np.broadcast_to(ridge[t], U.shape[1])
        free = np.isfinite(ridges)  # the other coordinates are 0, or 1 for the last one if it is pinned
        V[t, -1] = float(pinned)
        M = (X[:, free].T * weight[at]) @ X[:, free] + np.diag(ridges[free])
        V[t, free] = np.linalg.solve(M, X[:, free].T @ (weight[at] * (y[at] - X[:, ~free] @ V[t, ~free])))
        error = y[at] - X @ V[t]
        s[at] = weight[at] * error
        squares += float(s[at] @ error)
        np.add.at(by_rows, rows, np.outer(s[at], V[t]))
    return squares, V, s, by_rows


def derivative(
    c: Columns,
    y: Floats,
    U: Floats,
    ridge: Floats,
    dU: Floats,
    weight: Floats | None = None,
    pinned: bool = False,
) -> Floats:
    """The directional derivative of −by_rows along dU."""
    _, V, residual, _ = evaluate(c, y, U, ridge, weight, pinned)
    return weighted_derivative(c, residual, np.ones(c.entries) if weight is None else weight, U, V, ridge, dU)


def weighted_derivative(
    c: Columns, z: Floats, weight: Floats, U: Floats, V: Floats, ridge: Floats, dU: Floats
) -> Floats:
    """The directional derivative of −scatter(z, V) along dU, where ż = −weight · (dX v + X v̇)."""
    out = np.zeros(U.shape)
    for t, (rows, at) in enumerate(_columns(c)):
        X, dX, v, D = U[rows], dU[rows], V[t], weight[at]
        dv = _solved((X.T * D) @ X, ridge[t], dX.T @ z[at] - X.T @ (D * (dX @ v)))
        dz = -D * (dX @ v + X @ dv)
        np.add.at(out, rows, -np.outer(dz, v) - np.outer(z[at], dv))
    return out


def solve_with_factors(c: Columns, X: Floats, ridge: Floats, rhs: Floats, weight: Floats | None = None) -> Floats:
    """(X_tᵀ diag(weight) X_t + ridge_t)⁻¹ rhs_t for every column; the default weight is 1."""
    grams = systems(c, X, np.zeros(c.shape[1]), weight)
    return np.array([_solved(*one) for one in zip(grams, ridge, rhs, strict=True)]).reshape(rhs.shape)


def back_substitute(c: Columns, X: Floats, ridge: Floats, rhs: Floats) -> Floats:
    """R_t⁻¹ rhs_t for every column, where R_t is upper triangular, and R_tᵀ R_t = X_tᵀ X_t + ridge_t."""
    roots = np.linalg.cholesky(systems(c, X, ridge)).transpose(0, 2, 1)
    return np.linalg.solve(roots, rhs[:, :, None])[:, :, 0]


def systems(c: Columns, X: Floats, ridge: Floats, weight: Floats | None = None) -> Floats:
    """X_tᵀ diag(weight) X_t + ridge_t for every column."""
    weight = np.ones(c.entries) if weight is None else weight
    out = np.zeros((c.shape[1], X.shape[1], X.shape[1]))
    for t, (rows, at) in enumerate(_columns(c)):
        out[t] = (X[rows].T * weight[at]) @ X[rows] + np.diag(np.broadcast_to(ridge[t], X.shape[1]))
    return out


def newton_step(c: Columns, U: Floats, z: Floats, weight: Floats, V: Floats, ridge: Floats) -> tuple[Floats, Floats]:
    """The Newton step of every column, and its product with the right-hand side."""
    rhs = np.zeros(V.shape)
    for t, (rows, at) in enumerate(_columns(c)):
        rhs[t] = U[rows].T @ z[at] - np.where(np.isfinite(ridge[t]), ridge[t], 0.0) * V[t]
    step = solve_with_factors(c, U, ridge, rhs, weight)
    return step, np.sum(step * rhs, axis=1)


def _solved(gram: Floats, ridge: Floats, rhs: Floats) -> Floats:
    """(gram + diag(ridge))⁻¹ rhs, where coordinates with an infinite ridge are 0."""
    ridges = np.broadcast_to(ridge, len(gram))
    free, out = np.isfinite(ridges), np.zeros(len(gram))
    out[free] = np.linalg.solve(gram[np.ix_(free, free)] + np.diag(ridges[free]), rhs[free])
    return out


def scatter(c: Columns, s: Floats, V: Floats) -> Floats:
    """S V."""
    out = np.zeros((c.shape[0], V.shape[1]))
    for t, (rows, at) in enumerate(_columns(c)):
        np.add.at(out, rows, np.outer(s[at], V[t]))
    return out


def gather(c: Columns, s: Floats, X: Floats) -> Floats:
    """SᵀX."""
    out = np.zeros((c.shape[1], X.shape[1]))
    for t, (rows, at) in enumerate(_columns(c)):
        out[t] = s[at] @ X[rows]
    return out


def box_values(
    c: Columns, y: Floats, U: Floats, weight: Floats, box: tuple[float, float, bool, float, float], s: Floats, V: Floats
) -> tuple[Floats, Floats, Floats]:
    """A check of `solve_box` instead of a second solver: c_t X_tᵀ s_t, and the values of primal V and dual s.

    The dual value of any s in its box is at most the primal value of any v. If the two are equal, both are optimal.
    """
    lower, upper, mirrored, epsilon, delta = box
    implied, primal, dual = np.zeros(V.shape), np.zeros(c.shape[1]), np.zeros(c.shape[1])
    for t, (rows, at) in enumerate(_columns(c)):
        turned = mirrored & (y[at] < 0)
        low, high = np.where(turned, -upper, lower), np.where(turned, -lower, upper)
        e = y[at] - U[rows] @ V[t]
        excess = np.sign(e) * np.maximum(np.abs(e) - epsilon, 0)
        with np.errstate(divide="ignore", invalid="ignore"):  # e/0 means an end of the box, 0/0 any point in it
            best = np.clip(np.where(excess == 0, 0, excess / delta), low, high)
        primal[t] = _dual_loss(best, e, epsilon, delta) + V[t] @ V[t] / (2 * weight[t])
        implied[t] = weight[t] * (U[rows].T @ s[at])
        inside = bool(np.all((s[at] >= low) & (s[at] <= high)))
        dual[t] = _dual_loss(s[at], y[at], epsilon, delta) - implied[t] @ implied[t] / (2 * weight[t])
        dual[t] = dual[t] if inside else -np.inf
    return implied, primal, dual


def box_curvature(y: Floats, error: Floats, box: tuple[float, float, bool, float, float]) -> Floats:
    """1/δ where the dual variable of an error is inside its box and, with ε, not 0."""
    lower, upper, mirrored, epsilon, delta = box
    turned = mirrored & (y < 0)
    # Computed as in the kernel, so that entries exactly at an end of the box fall on the same side.
    s = (error - np.clip(error, -epsilon, epsilon)) * (1.0 / delta)
    s = np.where(turned, -s, s)
    return np.where((s > lower) & (s < upper) & ((s != 0) | (epsilon == 0)), 1.0 / delta, 0.0)


def bound_conditions(
    X: Floats, centre: Floats, M: Floats, lower: Floats, upper: Floats, stiffness: float, V: Floats, S: Floats
) -> tuple[Floats, Floats, Floats]:
    """A check of `bound` instead of a second solver: three arrays that are 0 at the minimisers, and only there.

    `M` has one matrix per column, `S` is the rows × columns matrix of s. Returned are the gradients, the violations of
    hard bounds, and the errors of s.
    """
    W = X @ V.T
    gradient = np.einsum("tkl,tl->tk", M, V - centre) - S.T @ X
    beyond = W - np.clip(W, lower, upper)
    if stiffness < np.inf:
        return gradient, np.zeros(W.shape), S + stiffness * beyond
    # s is positive at active lower bounds, negative at active upper ones, else 0; scaled by the norms of the rows.
    size = np.linalg.norm(X, axis=1)[:, None]
    push, unit = S * size, np.where(size > 0, size, 1.0)
    wrong = np.minimum(np.maximum(push, 0.0), (W - lower) / unit) + np.minimum(
        np.maximum(-push, 0.0), (upper - W) / unit
    )
    return gradient, beyond / unit, np.maximum(wrong, 0.0)


def _dual_loss(s: Floats, e: Floats, epsilon: float, delta: float) -> float:
    return float(np.sum(s * e - epsilon * np.abs(s) - 0.5 * delta * s**2))


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


def products(c: Columns, piece: Piece, U: Floats, rows: Floats) -> Floats:
    """u_iᵀ rows_t at every entry of a piece."""
    return predict(c, U, rows)[piece.entries]


def padded(U: Floats, width: int) -> Floats:
    """U padded with zeros on the right and below."""
    return np.pad(U, ((0, 1), (0, width - U.shape[1])))


def _columns(c: Columns) -> list[tuple[Indices32, slice]]:
    bounds = zip(c.indptr[:-1], c.indptr[1:], strict=True)
    return [(c.index[start:end], slice(start, end)) for start, end in bounds]
