"""What a learned matrix leaves of the observed entries."""

from __future__ import annotations

import numpy as np

from rslm.data import ObservedMatrix
from rslm.estimators.defaults import NORMAL
from rslm.kernels.scratch import scratch_like
from rslm.losses import Loss
from rslm.runtime.types import Floats

BLOCK = 1 << 21  # entries that are worked on at a time


def residuals(data: ObservedMatrix, w: Floats, loss: Loss) -> ObservedMatrix:
    """y − w, with probabilities y − P(1), and with other losses of two classes the distance to the right side by 1."""
    left = scratch_like(data.values)
    largest = np.finfo(left.dtype).max
    for start in range(0, len(data), BLOCK):
        at = slice(start, start + BLOCK)
        y = loss.targets(data.values[at])
        found = (y > 0) - loss.probability(w[at]) if loss.probabilistic else y - w[at]
        if loss.binary and not loss.probabilistic:
            found[found * y < 0] = 0.0  # nothing is left on the right side by 1 or more
        left[at] = np.clip(found, -largest, largest)
    return data.with_values(left)


def outlier_scores(residuals: ObservedMatrix, units: Floats | None) -> ObservedMatrix:
    """|residuals| relative to 1.4826 times their median, or that of those that are not 0 if the median is 0.

    They are compared in the `units` of their features, if these have units of their own.
    """
    size = np.abs(residuals.values)
    if units is not None:
        size = size / units[residuals.index]
    half = 0.5 * size  # a median may be the mean of two numbers, whose sum must be finite
    usual = 2.0 * np.median(half) or (2.0 * np.median(half[half > 0]) if half.any() else 1.0)
    with np.errstate(over="ignore"):
        scores = np.minimum(size / (NORMAL * usual), np.finfo(size.dtype).max)
    return residuals.with_values(scores)
