"""The series that was given: its shape, and what it must hold."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from rslm.runtime.types import Floats

LEAST_SAMPLES = 4


def checked_series(y: ArrayLike) -> tuple[Floats, bool]:
    """The series as an array of shape (channels, n), and whether it was given without channels."""
    given = np.ma.filled(y.astype(float), np.nan) if isinstance(y, np.ma.MaskedArray) else np.asarray(y)
    if given.dtype.kind not in "fiub":
        raise TypeError(f"y has dtype {given.dtype}, but real numbers are needed; convert it with .astype(float)")
    if given.ndim not in (1, 2):
        raise ValueError(f"y must have shape (n,) or (n, channels); got {given.shape}")
    Y = np.array(given if given.ndim == 2 else given[:, None], dtype=np.float64).T.copy()
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


def root_mean_square(Y: Floats) -> float:
    """Of all samples that are not missing."""
    largest = float(np.nanmax(np.abs(Y)))
    return largest * math.sqrt(float(np.nanmean((Y / largest) ** 2))) if largest > 0 else 0.0


def relative_sizes(Y: Floats) -> Floats:
    """The root mean square of every channel, in units of that of all samples."""
    overall = root_mean_square(Y)
    return np.array([root_mean_square(y) / overall if overall > 0 else 1.0 for y in Y])
