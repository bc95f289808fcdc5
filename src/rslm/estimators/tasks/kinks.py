"""Losses with kinks are rounded where U is fixed: Newton's method needs second derivatives."""

from __future__ import annotations

from rslm.estimators.defaults import spread
from rslm.losses import Loss
from rslm.runtime.types import Floats

ROUNDED, AT_MARGIN = 0.3, 0.1  # width of rounded kinks within a search, in spreads of the targets; of two classes
STAGES = (1.0, 0.1, 0.01)  # widths of an answer relative to these, one after the other
FINEST = STAGES[-1]


def rounded(loss: Loss, values: Floats, part: float = 1.0) -> Loss:
    """The loss with kinks rounded by `part` of the width within a search; the loss itself if it has none."""
    if loss.smooth:
        return loss
    reach = 1.0 if loss.interval is None else loss.interval.reach
    width = AT_MARGIN if loss.binary else ROUNDED * spread(values)
    return loss.rounded(part * width / reach)
