"""When Newton's method ends, and how far it goes along a step. The objective along a step is convex."""

from __future__ import annotations

import math
from collections.abc import Callable

from rslm.runtime.interrupts import raise_if_stopped

ENOUGH = 1e-11  # relative length of a step, in the norm of the Hessian, that is not worth taking
SETTLED = 1e-7  # a step this small that is no shorter than the one before consists of rounding errors
UPHILL = 0.1  # slope at the end of a step, relative to that at its start, up to which the step is not too long
CAUTIOUS = 10  # after this many steps the slope must not be uphill at all
MOST_TRIALS = 60
NEAR_TRIALS = 5  # by the secant rule; a step that is still too long is far too long


def step_length(slope_at: Callable[[float], float], slope: float, count: int) -> float:
    """How much of step number `count` to take: all of it, or a part that ends near the lowest point; 0 if none.

    `slope` is the derivative at the start, `slope_at` that at a length.
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
