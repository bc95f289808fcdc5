"""The series that was given: its shape, and what it must hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEAST_SAMPLES = 4


def checked_series(y: ArrayLike) -> tuple[NDArray[Any], bool]:
    """The series as an array of shape (channels, n), and whether it was given without channels."""
    given = _without_mask(y) if isinstance(y, np.ma.MaskedArray) else np.asarray(y)
    if given.dtype.kind not in "fiubc":
        raise TypeError(f"y has dtype {given.dtype}, but numbers are needed, real or complex; convert it first")
    if given.ndim not in (1, 2):
        raise ValueError(f"y must have shape (n,) or (n, channels); got {given.shape}")
    kind = np.complex128 if given.dtype.kind == "c" else np.float64
    Y = np.array(given if given.ndim == 2 else given[:, None], dtype=kind).T.copy()
    if Y.shape[1] < LEAST_SAMPLES or Y.shape[0] < 1:
        raise ValueError(f"y must have at least {LEAST_SAMPLES} samples; got an array of shape {given.shape}")
    infinite = np.argwhere(np.isinf(Y.T))
    if len(infinite):
        raise ValueError(f"y must be finite, or NaN where it is missing; y{infinite[0].tolist()} is infinite")
    seen = (~np.isnan(Y)).sum(axis=1)
    few = int(np.argmin(seen))
    if seen[few] < LEAST_SAMPLES:
        which = "y" if given.ndim == 1 else f"channel {few} of y"
        all_or_not = f"all samples of {which} are" if seen[few] == 0 else f"all but {seen[few]} samples of {which} are"
        raise ValueError(f"{all_or_not} missing; at least {LEAST_SAMPLES} are needed")
    return Y, given.ndim == 1


def _without_mask(y: np.ma.MaskedArray[Any, Any]) -> NDArray[Any]:
    return np.asarray(np.ma.filled(y.astype(np.result_type(y.dtype, float)), np.nan))


def root_mean_square(Y: NDArray[Any]) -> float:
    """Of all samples that are not missing."""
    largest = float(np.nanmax(np.abs(Y)))
    return largest * math.sqrt(float(np.nanmean(np.abs(Y / largest) ** 2))) if largest > 0 else 0.0
