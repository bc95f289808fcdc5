"""Medians with weights, and medians of groups."""

from __future__ import annotations

import numpy as np

from rslm.runtime.types import Floats, Indices32, Indices64


def median(values: Floats, weights: Floats | None = None) -> float:
    """The median; with weights, weight 2 is the value twice."""
    if weights is None:
        return float(np.median(values))
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    ends = (np.searchsorted(below, 0.5 * below[-1], side=side) for side in ("left", "right"))
    left, right = (values[order[min(int(end), len(order) - 1)]] for end in ends)
    return float(0.5 * left + 0.5 * right)


def medians_of_groups(values: Floats, groups: Indices32 | Indices64, n_groups: int) -> Floats:
    """The median of every group; 0 for a group without values."""
    counts = np.bincount(groups, minlength=n_groups)
    ordered = values[np.lexsort((values, groups))]
    start, found = np.cumsum(counts) - counts, np.zeros(n_groups)
    some = counts > 0
    left, right = (ordered[(start + half)[some]] for half in ((counts - 1) // 2, counts // 2))
    found[some] = 0.5 * left + 0.5 * right
    return found
