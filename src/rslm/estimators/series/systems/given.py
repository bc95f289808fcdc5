"""The inputs that were given: their shape, and what they must hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rslm.runtime.types import Floats


def checked_inputs(u: ArrayLike, n: int | None = None) -> Floats:
    """Inputs as an array of shape (inputs, n); n is the number of samples of the outputs, if there are any."""
    given = np.ma.filled(u.astype(float), np.nan) if isinstance(u, np.ma.MaskedArray) else np.asarray(u)
    if given.dtype.kind == "c":
        raise TypeError(
            f"u has dtype {given.dtype}, but real numbers are needed; give its real and imaginary parts as two inputs, "
            "np.column_stack([u.real, u.imag])"
        )
    if given.dtype.kind not in "fiub":
        raise TypeError(f"u has dtype {given.dtype}, but real numbers are needed; convert it with .astype(float)")
    if given.ndim not in (1, 2) or 0 in given.shape:
        raise ValueError(f"u must have shape (n,) or (n, inputs), and samples; got {given.shape}")
    if n is not None and len(given) < n:
        raise ValueError(
            f"u has {len(given)} samples and y has {n}, but every output needs the input at its time; use "
            f"y[:{len(given)}] if both begin at the same time"
        )
    if n is not None and len(given) > n:
        raise ValueError(
            f"u has {len(given)} samples and y has {n}; use u[:{n}] if both begin at the same time, and simulate "
            "the rest afterwards"
        )
    wrong = np.argwhere(~np.isfinite(given.astype(np.float64)))
    if len(wrong):
        where = ", ".join(str(k) for k in wrong[0])
        raise ValueError(
            f"u[{where}] is {given[tuple(wrong[0])]}, but every input must be known: later outputs depend on it. "
            "Fill it, or fit the samples after it; only outputs may be missing"
        )
    return np.array(given if given.ndim == 2 else given[:, None], dtype=np.float64).T.copy()
