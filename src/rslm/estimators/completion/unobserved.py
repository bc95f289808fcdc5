"""Rows and columns without an observed entry, in words."""

from __future__ import annotations

import numpy as np

from rslm.data import ObservedMatrix
from rslm.data.labels import Ids, show_id
from rslm.runtime.types import Indices64

SHOWN = 3  # rows or columns that are named


def unobserved(data: ObservedMatrix, names: Ids | None = None) -> str:
    """How many samples and features have no entry, and the first few of them; "" if all have one.

    `names` are those of the features, where the data have no ids of columns.
    """
    sides = [
        _side("sample", "row", data.row_counts(), data.row_ids),
        _side("feature", "column", data.col_counts(), names if data.col_ids is None else data.col_ids),
    ]
    return " and ".join(side for side in sides if side)


def _side(what: str, kind: str, counts: Indices64, ids: Ids | None) -> str:
    empty = np.flatnonzero(counts == 0)
    if not len(empty):
        return ""
    shown = ", ".join(show_id(ids, int(at)) for at in empty[:SHOWN])
    kind = kind if len(empty) == 1 else f"{kind}s"
    return f"{len(empty)} of {len(counts)} {what}s ({kind} {shown}{', …' if len(empty) > SHOWN else ''})"
