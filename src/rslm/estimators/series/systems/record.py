"""What was recorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rslm.runtime.types import Floats

EXACT = 1e-18  # squares this small relative to those of the outputs about their mean are rounding errors
ROUNDED = 1e-28  # the same, relative to the outputs themselves


@dataclass(frozen=True)
class Record:
    """Outputs, (outputs, n) with NaN for missing samples, and inputs, (inputs, n); all of size 1, or zero."""

    Y: Floats
    U: Floats
    levels: bool = True  #: whether outputs may have offsets

    @property
    def samples(self) -> int:
        """Outputs that are not missing."""
        return int((~np.isnan(self.Y)).sum())

    @property
    def driving(self) -> Floats:
        """An impulse just before the first sample, which sets the state, and the inputs: (1 + inputs, 1 + n)."""
        driving = np.zeros((1 + len(self.U), 1 + self.U.shape[1]))
        driving[0, 0] = 1.0
        driving[1:, 1:] = self.U
        return driving

    @property
    def rounding(self) -> Floats:
        """Squared residuals of every output that are rounding errors."""
        about_mean = np.nansum((self.Y - np.nanmean(self.Y, axis=1, keepdims=True)) ** 2, axis=1)
        own = ROUNDED * np.maximum(np.nansum(self.Y**2, axis=1), 1.0)
        return np.asarray(np.maximum(EXACT * about_mean, own))
