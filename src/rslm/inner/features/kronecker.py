"""The preconditioner for features, B = C ℓ'' (average X_tᵀX_t) ⊗ VᵀV + |V|² I, from the eigenvectors of both parts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rslm.inner.tail import Tail
from rslm.kernels import Columns
from rslm.measurements.features import FeatureMatrix
from rslm.runtime.types import Floats

LITTLE = 1e-6  # least ridge of coefficients without penalty, relative to their curvature


def kronecker_preconditioner(
    X: FeatureMatrix,
    columns: Columns,
    curvature: float,
    V: Floats,
    penalised: Floats,
    tail: Tail | None = None,
) -> Callable[[Floats], Floats]:
    """B⁻¹ for features X of the rows of a pattern and the factor V of its columns, with |V|² of `penalised`.

    With the `tail` of a location, the coefficients that all columns share have their own ridge in place of |V|².
    """
    share = columns.entries / (columns.shape[0] * columns.shape[1])  # average fraction of the rows seen in a column
    vectors, values = X.spectrum
    if tail is not None and tail.width:
        return _with_tail(vectors, curvature * share * values, V, tail)
    mu, R = np.linalg.eigh(V.T @ V)
    shift = max(float(np.vdot(penalised, penalised)), np.finfo(float).tiny)
    B = curvature * share * np.outer(values, np.maximum(mu, 0.0)) + shift

    def solve(eta: Floats) -> Floats:
        turned = (eta if vectors is None else vectors.T @ eta) @ R / B
        return np.asarray((turned if vectors is None else vectors @ turned) @ R.T)

    return solve


def _with_tail(vectors: Floats | None, values: Floats, V: Floats, tail: Tail) -> Callable[[Floats], Floats]:
    """The same with another shift for the pinned coordinate; a column effect, which is no part of U, stays 0."""
    rank, width = tail.rank(V.shape[1]), V.shape[1]
    moves = np.ones(width, dtype=bool)
    moves[rank : rank + (tail.columns is not None)] = False
    V = V[:, moves]
    shift = np.full(V.shape[1], max(float(np.vdot(V[:, :rank], V[:, :rank])), np.finfo(float).tiny))
    if tail.pinned:
        shift[-1] = max(tail.rows, LITTLE * float(values.mean()) * len(V), np.finfo(float).tiny)
    root = 1.0 / np.sqrt(shift)
    mu, R = np.linalg.eigh(root[:, None] * (V.T @ V) * root)
    B, R = np.outer(values, np.maximum(mu, 0.0)) + 1.0, root[:, None] * R

    def solve(eta: Floats) -> Floats:
        out = np.zeros(eta.shape)
        turned = (eta[:, moves] if vectors is None else vectors.T @ eta[:, moves]) @ R / B
        out[:, moves] = (turned if vectors is None else vectors @ turned) @ R.T
        return out

    return solve
