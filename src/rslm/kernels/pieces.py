"""Pieces of the columns of a pattern, and what is found for every column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rslm.runtime.types import Floats


@dataclass(frozen=True)
class BoxSolved:
    """Results of the regressions of all columns with a loss that is defined by a box of its dual variables."""

    V: Floats  #: (columns, rank)
    value: Floats  #: Σ ℓ + |v|²/2c of every column
    gap: Floats  #: an upper bound on its distance to the dual value
    rounds: NDArray[np.int32]


@dataclass(frozen=True)
class Piece:
    """Some neighbouring groups of eight columns."""

    first: int
    last: int
    columns: slice
    entries: slice
