"""The ridges of effects, in numbers of observations, and their values in the units of an objective."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rslm.estimators.defaults import TYPICAL, spread
from rslm.location import Location
from rslm.losses import Loss
from rslm.runtime.magnitudes import LARGEST
from rslm.runtime.types import Floats


@dataclass(frozen=True)
class Ridges:
    """Which effects there are besides the mean, and their ridges.

    A ridge is a number of entries: the effect of a row with that many entries is shrunk half-way to 0.
    """

    rows: float | None  #: of the samples; None for no effects
    columns: float | None  #: of the features

    def times(self, factor: float) -> Ridges:
        """These ridges multiplied by a factor."""
        return Ridges(*(None if ridge is None else factor * ridge for ridge in (self.rows, self.columns)))

    def location(self, C: float, curvature: float, transposed: bool) -> Location:
        """The location of a problem with this C and curvature of its loss; `transposed` if features are its rows."""
        rows, columns = (
            None if ridge is None else min(C * curvature * ridge, LARGEST) for ridge in (self.rows, self.columns)
        )
        return Location(True, columns, rows) if transposed else Location(True, rows, columns)


def usual_curvature(loss: Loss, values: Floats) -> float:
    """ℓ'' of a typical error, or ℓ' relative to it where the loss has kinks; 2 for the square loss."""
    if loss.quadratic:
        return 2.0
    if loss.binary:
        y = np.array([-1.0, 1.0])
        found = float(np.mean(loss.hessian(y, np.zeros(2)))) or float(np.mean(np.abs(loss.gradient(y, np.zeros(2)))))
    else:
        error = TYPICAL * spread(values)
        found = float(np.mean(np.abs(loss.gradient(np.array([-error, error]), np.zeros(2))))) / error
    return found if found > 0 and np.isfinite(found) else 1.0
