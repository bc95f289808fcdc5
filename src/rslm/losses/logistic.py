"""The logistic loss: one-bit completion.

Domain:  y is −1 or 1 (0 and 1, or booleans, are converted), w any real number.
Formula: ℓ(y, w) = log(1 + exp(−y w)),  ℓ*(y, s) = p log p + (1 − p) log(1 − p) with p = −s y in [0, 1].
Caveat:  w is the log-odds of y = 1; `probability` converts it to a probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlogy

from rslm.losses.base import Loss
from rslm.losses.checks import signs
from rslm.runtime.types import Floats


@dataclass(frozen=True)
class Logistic(Loss):
    """ℓ(y, w) = log(1 + exp(−y w)) for y = ±1 (or booleans, or 0 and 1); w is the log-odds of 1."""

    binary = True
    probabilistic = True

    def value(self, y: Floats, w: Floats) -> Floats:
        return np.logaddexp(0.0, -y * w)

    def gradient(self, y: Floats, w: Floats) -> Floats:
        return np.asarray(-y * expit(-y * w))

    def hessian(self, y: Floats, w: Floats) -> Floats:
        p = expit(-np.abs(w))  # the smaller of the two probabilities, so that 1 − p does not cancel
        return np.asarray(p * (1.0 - p))

    def conjugate(self, y: Floats, s: Floats) -> Floats:
        p = -s * y
        inside = (p >= 0.0) & (p <= 1.0)
        p = np.where(inside, p, 0.0)
        return np.where(inside, xlogy(p, p) + xlogy(1.0 - p, 1.0 - p), np.inf)

    def targets(self, y: Floats) -> Floats:
        return signs(self, y)

    def probability(self, w: Floats) -> Floats:
        """The probability of y = 1."""
        return np.asarray(expit(w))
