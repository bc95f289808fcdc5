"""Rows and columns that `fit` has not seen: an error, or one more row of the factors, which stands for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rslm.data import Labels
from rslm.runtime.types import Floats, Indices64


def places(labels: Labels, wanted: Any, factors: Floats, average: Floats, unseen: str) -> tuple[Floats, Indices64]:
    """Factors and positions in them; with unseen="mean", what is unknown has the `average` one, after all others."""
    if unseen not in ("error", "mean"):
        raise ValueError(f'unseen must be "error" or "mean"; got {unseen!r}')
    at = labels.places(wanted)
    if (at >= 0).all():
        return factors, at
    if unseen == "error":
        raise labels.refusal(wanted, at, 'leave unknown ones out, or predict them like an average one: unseen="mean"')
    if (at < 0).all() and labels.ids is not None and {*map(str, np.ravel(wanted))} & {*map(str, labels.ids)}:
        raise labels.refusal(wanted, at, "give ids of the type that fit was given")
    return np.vstack([factors, average]), np.where(at < 0, len(factors), at)
