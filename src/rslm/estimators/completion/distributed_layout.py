"""The layout of a data matrix that the workers of a cluster hold; they compute what `Layout` needs of the entries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from rslm.estimators.automatic.sample import C_of_more_rows
from rslm.estimators.completion.fitted_samples import FittedSamples
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.ridges import usual_curvature
from rslm.losses.checked import CheckedLoss
from rslm.runtime.types import Floats
from rslm.solvers.stopping import Progress
from rslm.structures import Box
from rslm.structures.box import ObservedBeyond

SAMPLE = 10_000  # entries from which their spread is estimated


@dataclass(frozen=True)
class DistributedLayout(Layout):
    """Workers hold blocks of samples, so the features are on the left even if they are the larger side."""

    data: Any  #: a DistributedMatrix
    left: str = "features"
    sample: Layout | None = None  #: of some of the samples, or all if they are few, which were sent to this process
    at_hand: ClassVar[bool] = False

    @cached_property
    def searched(self) -> Layout:
        assert self.sample is not None
        return self.sample

    @cached_property
    def more(self) -> float:
        rows, sampled = (int(np.count_nonzero(data.row_counts())) for data in (self.data, self.searched.data))
        return C_of_more_rows(int(np.count_nonzero(self.data.col_counts())), rows, sampled)

    @cached_property
    def largest(self) -> float:
        return float(self.data.largest)

    @cached_property
    def curvature(self) -> float:
        if self.sample is not None:
            return self.sample.curvature
        return usual_curvature(self.loss, self._measurement().sample(SAMPLE))

    @cached_property
    def one_class(self) -> bool:
        return self.data.positives in (0, len(self.data))

    def beyond(self, box: Box) -> ObservedBeyond | None:
        found: ObservedBeyond | None = self.data.beyond(box)
        return found

    def seen(self) -> FittedSamples:
        return FittedSamples(self.data.shape, *self.data.entries(FittedSamples.remembered(len(self.data))))

    def at(self, progress: Progress) -> dict[str, Any]:
        """Nothing: factors stay with the workers until the fit has ended."""
        return {}

    def _measurement(self) -> Any:
        maps = [] if self.scale == 1.0 else [partial(_divided, by=self.scale)]
        return self.data.measurement(*maps, CheckedLoss(self.loss).targets)

    def _has(self, value: float) -> bool:
        return bool(self.data.has(value))


def _divided(values: Floats, by: float) -> Floats:
    return np.asarray(values / by)
