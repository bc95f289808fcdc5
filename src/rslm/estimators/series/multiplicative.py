"""Whether the swings of a series grow with its level, so that its logarithm should be fitted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rslm.runtime.types import Floats

BLOCKS = 6  # of consecutive samples, in each of which level and swings are measured
SHORTEST = 8  # samples of a block
LEAST = 0.005  # swings relative to the level: smaller ones may be those of a curve
RISE = 1.5  # of the level, below which nothing can be said
STEEP, CLEAR = 0.75, 0.9  # slope and correlation of the logarithms of swings and levels: a product has a slope of 1


def is_multiplicative(y: Floats) -> bool:
    """Of one channel, NaN where samples are missing."""
    known = np.flatnonzero(~np.isnan(y))
    if len(known) < BLOCKS * SHORTEST or (y[known] <= 0.0).any():
        return False
    level, swing = np.array([_level_and_swing(block, y[block]) for block in np.array_split(known, BLOCKS)]).T
    if level.max() < RISE * level.min() or (swing < LEAST * level).any():
        return False
    x, s = np.log(level), np.log(swing)
    x, s = x - x.mean(), s - s.mean()
    if x @ np.arange(BLOCKS) <= 0.0:  # what decays is continued as it is
        return False
    return bool(x @ s > STEEP * (x @ x) and (x @ s) ** 2 > CLEAR**2 * (x @ x) * (s @ s))


def _level_and_swing(at: NDArray[np.intp], y: Floats) -> tuple[float, float]:
    """The mean, and the standard deviation around a parabola."""
    parabola = np.polynomial.Polynomial.fit(at, y, 2)
    return float(y.mean()), float(np.std(y - parabola(at)))
