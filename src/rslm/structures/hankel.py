"""Hankel structure: W[i, t] = h[i + t], the windows of a series side by side.

All products are correlations, done by FFT: O(k n log n) for k columns, where the d × T matrix would take O(k d T).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from rslm.runtime.types import Floats, Indices64
from rslm.structures.linear import LinearStructure, checked_count


@dataclass(frozen=True, eq=False)
class Transformed:
    """The Fourier transform of parameters, or of the columns of a factor."""

    values: NDArray[Any]


def transformed(given: Any, transform: Callable[[], NDArray[Any]]) -> Transformed:
    """`given` if it is transformed already, otherwise the result of `transform`."""
    return given if isinstance(given, Transformed) else Transformed(transform())


class Hankel(LinearStructure):
    """Hankel matrices, or several of them side by side: [H(h₁) … H(h_m)], for series with the same dynamics.

    Parameters
    ----------
    window : int
        Rows of each matrix: d.
    windows : int
        Columns of each matrix. A series has n = window + windows − 1 samples.
    channels : int
        Number m of series: w is h₁ … h_m concatenated, and T is channels · windows.
    """

    tested = True

    def __init__(self, window: int, windows: int, channels: int = 1) -> None:
        self.window, self.windows = checked_count("window", window), checked_count("windows", windows)
        self.channels = checked_count("channels", channels)
        self.samples = self.window + self.windows - 1  #: of one series
        self.shape = (self.window, self.channels * self.windows)
        self.size = self.channels * self.samples
        self.bandwidth = self.window
        self._length = next_fast_len(self.samples, real=True)

    def _transform(self, rows: Floats) -> Floats:
        return np.asarray(rfft(rows, self._length))

    def _back(self, transformed: Floats, length: int) -> Floats:
        return np.asarray(irfft(transformed, self._length)[..., :length])

    def parameters(self, w: Any) -> Transformed:
        """The transform of w, indexed by (channel, frequency)."""
        return transformed(w, lambda: self._transform(w.reshape(self.channels, self.samples)))

    def left(self, X: Any) -> Transformed:
        """The transform of X, indexed by (column, frequency)."""
        return transformed(X, lambda: self._transform(np.ascontiguousarray(X.T)))

    def right(self, Y: Any) -> Transformed:
        """The transform of Y, indexed by (column, channel, frequency)."""
        shape = -1, self.channels, self.windows
        return transformed(Y, lambda: self._transform(np.ascontiguousarray(Y.T).reshape(shape)))

    def times(self, w: Any, Y: Any) -> Floats:
        h, y = self.parameters(w).values, self.right(Y).values
        product = h * y[:, 0].conj() if self.channels == 1 else np.einsum("cf,kcf->kf", h, y.conj())
        return self._back(product, self.window).T

    def transposed_times(self, w: Any, X: Any) -> Floats:
        h, x = self.parameters(w).values, self.left(X).values
        found = self._back(h[None] * x.conj()[:, None], self.windows)
        return found.reshape(len(found), -1).T

    def adjoint(self, X: Any, Y: Any) -> Floats:
        total = np.einsum("kf,kcf->cf", self.left(X).values, self.right(Y).values)
        return self._back(total, self.samples).ravel()

    def matrix(self, w: Floats) -> Floats:
        series = w.reshape(self.channels, self.samples)
        return np.concatenate([sliding_window_view(h, self.windows) for h in series], axis=1)

    def gram(self, w: Floats) -> Floats:
        return self.counts * w

    @cached_property
    def counts(self) -> Floats:
        k = np.arange(self.samples)
        most = min(self.window, self.windows)
        once = np.minimum(np.minimum(k + 1, self.samples - k), most).astype(np.float64)
        return np.tile(once, self.channels)

    def place(self, rows: Indices64, columns: Indices64) -> Indices64:
        channel, t = np.divmod(columns, self.windows)
        return np.asarray(channel * self.samples + rows + t)

    def __repr__(self) -> str:
        more = f", channels={self.channels}" if self.channels > 1 else ""
        return f"Hankel({self.window}, {self.windows}{more})"
