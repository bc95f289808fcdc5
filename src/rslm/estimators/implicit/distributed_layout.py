"""Users × items on the workers of a cluster, with zeros at all entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rslm.estimators.implicit.layout import ImplicitLayout
from rslm.measurements.base import Measurement
from rslm.solvers.stopping import Progress


@dataclass(frozen=True)
class DistributedImplicitLayout(ImplicitLayout):
    """Workers hold blocks of users, so the items are on the left even if they are the larger side."""

    data: Any  #: a DistributedMatrix of ones with confidences
    left: str = "features"
    at_hand: ClassVar[bool] = False

    def _measurement(self) -> Measurement:
        measurement: Measurement = self.data.measurement(alpha0=self.alpha0)
        return measurement

    def at(self, progress: Progress) -> dict[str, Any]:
        """Nothing: factors stay with the workers until the fit has ended."""
        return {}
