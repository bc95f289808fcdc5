"""Whether errors have lately been larger than before.

The variance follows an exponentially weighted mean of squared errors, v_{t+1} = λ v_t + (1 − λ) e_t², with the λ of
greatest likelihood; λ = 1 is a constant variance.
"""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter

from rslm.runtime.types import Floats

DECAYS = (0.99, 0.98, 0.96, 0.93, 0.9)
PRICE = 2.0  # of a λ below 1, in −2 log likelihood


def recent_variance(errors: Floats) -> float:
    """The variance of the next error relative to the mean one, at least 1: calm times need not last."""
    squares = errors**2
    mean = float(np.mean(squares)) if len(errors) else 0.0
    if mean == 0.0:
        return 1.0
    least, found = len(errors) * (np.log(mean) + 1), 1.0
    for decay in DECAYS:
        variance = mean + lfilter([1 - decay], [1.0, -decay], squares - mean)
        before = np.append(mean, variance[:-1])
        deviance = float(np.sum(np.log(before) + squares / before)) + PRICE
        if deviance < least:
            least, found = deviance, float(variance[-1]) / mean
    return max(found, 1.0)
