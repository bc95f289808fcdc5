"""The states of a linear recursion, for all times at once."""

from __future__ import annotations

import numpy as np

from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats

NEGLIGIBLE = 1e-18  # powers of A smaller than this change no digit


def states(A: Floats, W: Floats) -> Floats:
    """X with X[..., t + 1] = A X[..., t] + W[..., t] and X[..., 0] = 0, of the shape of W: (..., order, times).

    X[..., t] is the sum of A^j W[..., t − 1 − j] over j ≥ 0. The number of terms is doubled until all are there, so it
    takes log₂(times) products with matrices instead of a loop over times.
    """
    X = np.zeros_like(W)
    X[..., 1:] = W[..., :-1]
    times, step, power = W.shape[-1], 1, A
    while step < times and np.abs(power).max(initial=0.0) > NEGLIGIBLE:
        raise_if_stopped()
        X[..., step:] += power @ X[..., :-step]
        with np.errstate(under="ignore"):
            power = power @ power
        step *= 2
    return X
