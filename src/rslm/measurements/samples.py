"""Observed parameters of a linear structure: for a Hankel structure, samples of the series."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rslm.measurements.base import Measurement
from rslm.runtime.types import Floats, Indices64


class Samples(Measurement):
    """Observed samples of a series, or of several series.

    Parameters
    ----------
    y : array of shape (n,) or (channels, n)
        NaN is missing.
    """

    def __init__(self, y: ArrayLike) -> None:
        flat = np.array(y, dtype=np.float64).ravel()
        if np.isinf(flat).any():
            raise ValueError(f"samples must be finite or NaN; sample {int(np.flatnonzero(np.isinf(flat))[0])} is not")
        self.index: Indices64 = np.flatnonzero(~np.isnan(flat))
        if not len(self.index):
            raise ValueError(f"all {len(flat)} samples are missing" if len(flat) else "there are no samples")
        self.values: Floats = flat[self.index]
        self.parameters = len(flat)

    @property
    def shape(self) -> tuple[int, int]:
        raise TypeError("samples are parameters of a linear structure, such as Hankel(window, windows)")

    def index_in(self, structure: Any) -> Indices64:
        return self.index

    def arrays(self) -> dict[str, list[NDArray[Any]]]:
        return {"values": [self.values], "positions": [self.index]}

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"Samples({len(self)} of {self.parameters})"
