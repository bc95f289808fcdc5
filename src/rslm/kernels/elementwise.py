"""Kernels that need no sparsity pattern."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.kernels import _native
from rslm.kernels.arrays import integers, matrix
from rslm.kernels.scratch import scratch_like
from rslm.runtime.types import Floats, Indices64

BoxNumbers = tuple[float, float, bool, float, float]  # lower, upper, mirrored, ε, δ


def box_curvature(y: Floats, error: Floats, box: BoxNumbers, threads: int, order: Indices64 | None = None) -> Floats:
    """ℓ'' of a loss defined by its box, δ > 0, at these errors; element k is that of entry order[k] if given."""
    curvature = scratch_like(error)
    _native.box_curvature(y, error, order, *box, curvature, threads)
    return curvature


def padded(U: Floats) -> Floats:
    """The rows of U in the form that the kernels need: padded with zeros, and one row of zeros after the last."""
    U = matrix(U)
    out = np.empty((U.shape[0] + 1, _native.padded_width(U.shape[1])))
    _native.padded(U, out)
    return out


def predict_pairs(
    i: NDArray[np.integer[Any]], t: NDArray[np.integer[Any]], U: Floats, V: Floats, threads: int
) -> Floats:
    """u_iᵀ v_t for pairs of indices."""
    prediction = np.empty(len(i))
    _native.predict_pairs(integers(i, np.int64), integers(t, np.int64), matrix(U), matrix(V), prediction, threads)
    return prediction
