"""Whether the first samples hold spikes or exponentials that decay quickly.

Quick fits confuse the two, because such an exponential is over after a few samples. So the usual search is made with
several answers: the spikes as they were found; no spike among the first samples; and as spikes those first samples that
differ most from the signal of all later ones. Schwarz's criterion decides, to which a spike adds two parameters, its
size and its position. An exponential that is over after a sample or two costs a parameter more than others: it fits no
better than a spike does.
"""

from __future__ import annotations

import math

import numpy as np

from rslm.estimators.series.likelihood import MEMORY, Scored
from rslm.estimators.series.order_search import OrderSearch
from rslm.estimators.series.spikes import FAR, PARAMETERS, Flags
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats

FIRST = 8  # samples in which the two are confused
MOST = 2  # of these samples are tried as spikes one after the other, and then all that differ by far
OVER = math.exp(-1.0)  # modulus of a pole whose exponential is over after a sample or two
LONG = 4  # series shorter than this many times `FIRST` are left alone


def reconsidered(Y: Floats, spikes: Flags, largest: int) -> Flags:
    """The spikes in Y, of shape (channels, n) with NaN for missing samples, after another look at the first samples."""
    first = np.zeros(Y.shape, dtype=bool)
    first[:, :FIRST] = ~np.isnan(Y[:, :FIRST])
    found = _searched(Y, spikes, largest)
    quick = FIRST * found.fit.modes.decay > 1.0
    if Y.shape[1] < LONG * FIRST or not (quick.any() or (spikes & first).any()):
        return spikes
    later = _searched(Y, spikes | first, largest)
    far = np.where(first, np.abs(Y - later.fit.signal) / later.sizes[:, None], 0.0)
    options = {spikes.tobytes(): (_cost(Y, spikes, found), spikes)}
    outside = np.sort(far[far > FAR])[::-1]
    for least in (math.inf, *outside[:MOST], *outside[-1:]):
        among = far >= least
        other = np.where(first, among, spikes)
        if other.tobytes() not in options:
            options[other.tobytes()] = (_cost(Y, other, _searched(Y, other, largest)), other)
    return min(options.values(), key=lambda option: option[0])[1]


def _searched(Y: Floats, spikes: Flags, largest: int) -> Scored:
    raise_if_stopped()
    return OrderSearch(np.where(spikes, np.nan, Y), largest, MEMORY).run()


def _cost(Y: Floats, spikes: Flags, found: Scored) -> float:
    """The criterion of all samples, as if spikes had the noise of the others."""
    samples, count = int((~np.isnan(Y)).sum()), int(spikes.sum())
    parameters = PARAMETERS * count + int((np.abs(found.fit.modes.poles()) < OVER).sum())
    return found.criterion * samples / (samples - count) + parameters * math.log(samples)
