"""First estimates for a series: quick fits of all orders, a first order, the noise, and spikes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rslm.estimators.series.orders import best_order
from rslm.estimators.series.pilot import Pilot, pilot_fits
from rslm.estimators.series.spikes import find_spikes, pilot_without
from rslm.runtime.types import Floats


@dataclass(frozen=True)
class QuickStart:
    """First estimates; everything except `size` is in units of `size`."""

    size: float  #: root mean square of the samples without spikes; 1 if spikes were not searched
    seen: Floats  #: the samples, NaN if missing or spikes
    pilot: Pilot
    order: int
    noise: float  #: standard deviation

    @property
    def empty(self) -> bool:
        """Whether all samples except spikes are zero."""
        return not np.nan_to_num(self.seen).any()


def quick_start(Y: Floats, largest: int, to_fill: int, robust: bool) -> QuickStart:
    """First estimates for Y, of shape (channels, n) and root mean square 1; see `pilot_fits` for the parameters.

    If `robust`, spikes are searched and left out.
    """
    if robust:
        found = find_spikes(Y, max(largest, to_fill))
        seen = np.where(found.spikes, np.nan, Y)
        size = math.sqrt(float(np.nanmean(seen**2))) or 1.0
        seen = seen / size
        pilot = pilot_without(found.spikes, found.signal / size, Y / size, largest, to_fill)
    else:
        size, seen, pilot = 1.0, Y, pilot_fits(Y, largest, to_fill)
    samples, channels = int((~np.isnan(seen)).sum()), len(Y)
    order = best_order(pilot.squares, samples, channels)
    noise = math.sqrt(float(pilot.squares[order]) / max(samples - order * (1 + channels), 1))
    return QuickStart(size, seen, pilot, order, noise)
