"""The preconditioner for features, B = C ℓ'' (average X_tᵀX_t) ⊗ VᵀV + |V|² I, from the eigenvectors of both parts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rslm.kernels import Columns
from rslm.measurements.features import FeatureMatrix
from rslm.runtime.types import Floats


def kronecker_preconditioner(
    X: FeatureMatrix, columns: Columns, curvature: float, V: Floats, penalised: Floats
) -> Callable[[Floats], Floats]:
    """B⁻¹ for features X of the rows of a pattern and the factor V of its columns; |V|² is that of `penalised`."""
    share = columns.entries / (columns.shape[0] * columns.shape[1])  # average fraction of the rows seen in a column
    vectors, values = X.spectrum
    mu, R = np.linalg.eigh(V.T @ V)
    shift = max(float(np.vdot(penalised, penalised)), np.finfo(float).tiny)
    B = curvature * share * np.outer(values, np.maximum(mu, 0.0)) + shift

    def solve(eta: Floats) -> Floats:
        turned = (eta if vectors is None else vectors.T @ eta) @ R / B
        return np.asarray((turned if vectors is None else vectors @ turned) @ R.T)

    return solve
