"""Samples that are neither signal nor usual noise, found before a robust fit.

A spike of ten times the signal spoils poles, noise and order, so the quick fits have to leave it out. Each iteration
makes quick fits without the current spikes, chooses the order by Schwarz's criterion, computes the residuals of all
samples at that order, and takes those larger than a few robust standard deviations as the new spikes. A sample that
fits again is no longer a spike.

There are two starts. The first removes the largest residuals first, down to half of the largest in each iteration; it
suits signals that are large in few samples. The second clips gross samples to the usual size; it suits many spikes. The
answer that explains the series with the fewest spikes and exponentials is kept: a spike costs two parameters, its size
and its position.

A spike in the first sample looks like an exponential that decays within one sample, and a spike in the last sample of a
short series like one that grows, so quick fits take them for signal. The end samples are therefore also tried as
spikes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rslm.estimators.series.orders import EXACT, best_order, criterion
from rslm.estimators.series.pilot import Pilot, pilot_fits, quick_fits
from rslm.kernels import Stopped
from rslm.runtime.types import Floats

NORMAL = 1.4826  # medians of |x| in a standard deviation of x, for normal x
FAR = 3.5  # a residual larger than this many robust standard deviations is a spike
HALF = 0.5  # samples are removed down to this fraction of the largest residual in one iteration
USUAL = 3.0  # gross samples are clipped to this many medians of |y|
MOST_ITERATIONS = 12  # most series need three to six
PARAMETERS = 2  # cost of a spike in the criterion
END_SAMPLES = {0: [1, 2], -1: [-2, -3]}  # the first and the last sample, and the samples next to them
STANDS_OUT = 2.0  # an end sample may be a spike if it is this many times as large as the next ones
FILLINGS = 2  # how often spikes and missing samples are filled again at the end

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Found:
    """Spikes, and a signal that was fitted without them."""

    cost: float
    spikes: Flags
    signal: Floats


def find_spikes(Y: Floats, largest: int) -> Found:
    """The spikes in Y, of shape (channels, n) with NaN for missing samples; fits have orders up to the `largest`."""
    first = _fitted(Y, np.zeros(Y.shape, dtype=bool), pilot_fits(Y, largest))
    found = [first]
    try:
        found.append(_settled(Y, first, largest, HALF))
        usual = USUAL * np.array([[typical_size(y[y != 0])] for y in Y])
        cut = _fitted(Y, first.spikes, pilot_fits(np.clip(Y, -usual, usual), largest))
        found.append(_settled(Y, replace(cut, cost=math.inf), largest, 0.0))
        found.append(_ends_tried(Y, min(found, key=_cost), largest))
    except Stopped:  # use what was found so far
        pass
    return min(found, key=_cost)


def _settled(Y: Floats, best: Found, largest: int, part: float) -> Found:
    """Iterate from the signal of `best` until the spikes stay the same; returns the iterate of least cost."""
    missing, spikes, signal = np.isnan(Y), best.spikes, best.signal
    least = EXACT * math.sqrt(float(np.nanmean(Y**2)))  # smaller residuals are rounding errors
    for _ in range(MOST_ITERATIONS):
        residual = Y - signal
        far = FAR * np.array([[max(NORMAL * typical_size(r), least)] for r in residual])
        size = np.where(missing, 0.0, np.abs(residual))
        before, spikes = spikes, size > np.maximum(far, part * float(size[~spikes].max(initial=0.0)))
        if np.array_equal(before, spikes):
            break
        seen = np.where(spikes, np.nan, Y)
        this = _fitted(Y, spikes, quick_fits(seen, np.where(spikes | missing, signal, Y), largest))
        signal = this.signal
        best = min(best, this, key=_cost)
    return best


def _ends_tried(Y: Floats, best: Found, largest: int) -> Found:
    """Also takes the first and the last samples as spikes, if they stand out from the next ones and it costs less."""
    for channel in range(len(Y)):
        for end, next_ones in END_SAMPLES.items():
            size, next_size = abs(Y[channel, end]), np.nan_to_num(np.abs(Y[channel, next_ones])).max()
            if best.spikes[channel, end] or not size > STANDS_OUT * next_size:
                continue
            spikes = best.spikes.copy()
            spikes[channel, end] = True
            seen = np.where(spikes, np.nan, Y)
            filled = np.where(np.isnan(seen), best.signal, Y)
            filled[channel, end] = filled[channel, next_ones[0]]
            best = min(best, _fitted(Y, spikes, quick_fits(seen, filled, largest, FILLINGS)), key=_cost)
    return best


def _fitted(Y: Floats, spikes: Flags, pilot: Pilot) -> Found:
    """The signal of the best order. The cost is Schwarz's criterion of all samples, spikes included."""
    samples, count = int((~np.isnan(Y)).sum()), int(spikes.sum())
    kept = samples - count
    order = best_order(pilot.squares, kept, len(Y))
    of_fit = criterion(float(pilot.squares[order]), order, kept, len(Y), float(pilot.squares[0]))
    cost = of_fit * samples / kept + count * PARAMETERS * math.log(samples)
    return Found(cost, spikes, pilot.signals[order])


def _cost(found: Found) -> float:
    return found.cost


def typical_size(values: Floats) -> float:
    """The median of |x|, without missing values; 0 if there are none."""
    known = np.abs(values[~np.isnan(values)])
    return float(np.median(known)) if known.size else 0.0
