"""Stopping rules and step lengths of Newton's method, for objectives that are convex along a step."""

from __future__ import annotations

import math
from collections.abc import Callable

from rslm.runtime.interrupts import raise_if_stopped

ENOUGH = 1e-11  # relative length of a step, in the norm of the Hessian, below which the iteration ends
SETTLED = 1e-7  # a step this small that is not shorter than the one before consists of rounding errors
UPHILL = 0.1  # a step is too long if the slope at its end is larger than this, relative to the slope at its start
CAUTIOUS = 10  # after this many steps the slope at the end must not be uphill at all
MOST_TRIALS = 60
NEAR_TRIALS = 5  # by the secant rule; a step that is still too long after them is much too long


def step_length(slope_at: Callable[[float], float], slope: float, count: int) -> float:
    """The length of step number `count`: 1, or less to end near the minimum along the step; 0 if no length descends.

    `slope` is the derivative at the start, slope_at(length) the one at a length.
    """
    uphill = UPHILL if count < CAUTIOUS else 0.0
    length = 1.0
    for trial in range(MOST_TRIALS):
        raise_if_stopped()
        here = slope_at(length)
        if here <= -uphill * slope:
            return length
        guess = length * slope / (slope - here) if math.isfinite(here) else 0.0
        length = min(max(guess, 0.1 * length), 0.9 * length) if trial < NEAR_TRIALS else 0.1 * length
    return 0.0
