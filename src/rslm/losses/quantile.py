"""The quantile or pinball loss.

Domain:  y and w any real number, 0 < τ < 1.
Formula: ℓ(y, w) = τ (y − w) where y ≥ w, (1 − τ)(w − y) elsewhere;  ℓ*(y, s) = s y for −τ ≤ s ≤ 1 − τ.
Caveat:  the prediction is the τ-quantile; with τ = ½ the loss is half the absolute loss.
"""

from __future__ import annotations

from dataclasses import dataclass

from rslm.losses.box_dual import BoxDual
from rslm.losses.checks import checked_number
from rslm.losses.interval import Interval


@dataclass(frozen=True)
class Quantile(BoxDual):
    """ℓ(y, w) = max(τ (y − w), (τ − 1)(y − w)).

    Parameters
    ----------
    tau : float, default=0.5
        0 < τ < 1: the fraction of the targets that should lie below the prediction.
    """

    tau: float = 0.5

    def __post_init__(self) -> None:
        checked_number(self, "tau", above=0.0, below=1.0)

    @property
    def interval(self) -> Interval:
        return Interval(self.tau - 1.0, self.tau)
