"""The system of a Hankel structure whose samples are observed: A is banded, and as wide as the window."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded

from rslm.inner.linear.systems import Theta
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats
from rslm.structures import Hankel

ROWS = 256  # of Θ⁻¹ that are formed at a time


class Banded:
    """A, factorised; each channel has its own block, and channels with the same diagonal `of_loss` share one."""

    def __init__(self, structure: Hankel, of_loss: Floats, theta: Theta) -> None:
        by_channel = of_loss.reshape(structure.channels, -1)
        different, self._which = different_channels(by_channel)
        self._factors: list[Floats] = []
        bands = penalty_bands(structure, theta)
        for k, channel in enumerate(different):
            raise_if_stopped()
            own = bands if k == len(different) - 1 else bands.copy()
            own[:, 0] += by_channel[channel]
            # The transpose has the order of LAPACK, so that nothing is copied.
            self._factors.append(cholesky_banded(own.T, lower=True, overwrite_ab=True, check_finite=False))

    def solve(self, b: Floats, start: Floats | None = None) -> Floats:
        pieces = b.reshape(len(self._which), -1)
        solved = [
            cho_solve_banded((self._factors[k], True), x, check_finite=False)
            for k, x in zip(self._which, pieces, strict=True)
        ]
        return np.concatenate(solved)


def different_channels(by_channel: Floats) -> tuple[list[int], list[int]]:
    """The first of all channels with the same row, and for every channel which of these it is like."""
    different: list[int] = []
    which: list[int] = []
    for c, row in enumerate(by_channel):
        like = next((k for k, first in enumerate(different) if np.array_equal(row, by_channel[first])), len(different))
        if like == len(different):
            different.append(c)
        which.append(like)
    return different, which


def penalty_bands(structure: Hankel, theta: Theta) -> Floats:
    """The bands of P*Θ⁻¹P for one channel: row j holds the entries (j, j), (j, j + 1), …, (j, j + d − 1).

    Entry (j, j + o) is the sum of Θ⁻¹[i, i + o] over the windows that contain both samples: i ≤ j, and i > j − T. So
    rows are cumulative sums of the rows of Θ⁻¹, each from its diagonal on, minus the same sums T rows before.
    """
    d, n, T = structure.window, structure.samples, structure.windows
    bands = np.empty((n, d))
    bands[:d] = 0.0
    scaled = theta.Q * (theta.within / -theta.delta)
    for first in range(0, d, ROWS):
        raise_if_stopped()
        rows = scaled[first : first + ROWS] @ theta.Q[first:].T
        for k, row in enumerate(rows):
            bands[first + k, : d - first - k] = row[k:]
    bands[:d, 0] += 1.0 / theta.delta
    np.cumsum(bands[:d], axis=0, out=bands[:d])
    bands[d:] = bands[d - 1]
    bands[T:] -= bands[: d - 1]
    return bands
