"""The paper's problem at a given C: min C Σ loss(y_t, h_t) + ½ ‖H(h)‖_*² with a Hankel matrix H(h) of a given rank."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rslm.estimators.series.subspace import singular_space
from rslm.losses import Loss
from rslm.measurements import Samples
from rslm.problem import Problem
from rslm.runtime.interrupts import current_interrupt
from rslm.runtime.types import Floats
from rslm.solvers import Result, solve
from rslm.structures import Hankel

LEAST_COLUMN = 1e-6  # smallest singular value in the start, relative to the largest


def solved(Y: Floats, signal: Floats, window: int, rank: int, loss: Loss, C: float, **options: Any) -> Result:
    """The solution for Y, of shape (channels, n) with NaN for missing samples, from a first estimate of the signal."""
    channels, n = Y.shape
    problem = Problem(loss, Samples(Y), Hankel(window, n - window + 1, channels), C=C)
    with current_interrupt().ending(math.inf):  # short work; without a start there is no answer
        P, s = singular_space(signal, window, rank)
    start = P * np.sqrt(np.maximum(s, LEAST_COLUMN * max(float(s[0]), np.finfo(float).tiny)))
    return solve(problem, rank, start=start, **options)


def rank_of(h: Floats, window: int, rank: int) -> int:
    """How many singular values of H(h) are larger than the effect of smoothing; fewer than the rank if C is small."""
    s = singular_space(h, window, rank)[1]
    counts = Hankel(window, h.shape[1] - window + 1, len(h)).counts
    rest = max(float(counts @ h.ravel() ** 2) - float(s @ s), 0.0)
    return max(int((s**2 > rest).sum()), 1)
