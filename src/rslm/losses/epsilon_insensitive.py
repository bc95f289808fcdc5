"""The ε-insensitive loss of support vector regression.

Domain:  y and w any real number, ε ≥ 0.
Formula: ℓ(y, w) = max(|y − w| − ε, 0),  ℓ*(y, s) = s y + ε|s| for |s| ≤ 1.
Caveat:  ε is in the units of the data. ε = 0 is the absolute loss.
"""

from __future__ import annotations

from dataclasses import dataclass

from rslm.losses.box_dual import BoxDual
from rslm.losses.checks import checked_number
from rslm.losses.interval import Interval


@dataclass(frozen=True)
class EpsilonInsensitive(BoxDual):
    """ℓ(y, w) = max(|y − w| − ε, 0).

    Parameters
    ----------
    epsilon : float, default=0.1
        ε ≥ 0, in the units of the data: errors up to this cost nothing.
    """

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        checked_number(self, "epsilon", at_least=0.0)

    @property
    def interval(self) -> Interval:
        return Interval(-1.0, 1.0, epsilon=self.epsilon)
