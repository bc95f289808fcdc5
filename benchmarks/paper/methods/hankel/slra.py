"""SLRA: min ‖y − h‖² over series h whose Hankel matrix has rank r, as a non-linear least squares problem.

Variable projection with Levenberg–Marquardt from Kung's estimate of the poles, which has a window of its own; see
`hankel_baselines.slra`. Without weights this is the maximum of the likelihood, and has many local minima, so the start
matters: the window of the set, as in the paper, or a short one.

I. Markovsky, K. Usevich: Structured low-rank approximation with missing data, 2013; software: 2014.
"""

from __future__ import annotations

import numpy as np

from hankel_baselines import slra
from rslm.runtime.types import Floats

NAME = "SLRA"
SHORT = 3  # rows of the short window for each exponential


def fit(y: Floats, window: int, rank: int) -> Floats:
    return slra(np.asarray(y, np.float64), window, rank)


def fit_short(y: Floats, window: int, rank: int) -> Floats:
    """From poles that were found with a short window."""
    return slra(np.asarray(y, np.float64), min(window, SHORT * rank), rank)
