"""Noise of one output that is autoregressive: its coefficients, and whitening where samples may be missing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded
from scipy.signal import lfilter

from rslm.runtime.types import Floats

MOST_LAGS = 8
SAMPLES_PER_LAG = 20  # observed, at least
SMALL = 0.98  # a larger partial autocorrelation counts as this, because residuals of poor fits hardly decay


def whitened(X: Floats, ar: Floats) -> Floats:
    """X(t) − Σ_k ar_k X(t − k) in every column; a system is the same if this is done to its inputs and outputs."""
    coefficients: Any = np.concatenate([[1.0], -ar])
    samples: Any = X
    return np.asarray(lfilter(coefficients, [1.0], samples, axis=0))


@dataclass(frozen=True)
class Whitening:
    """Maps residuals r to white ones e of equal size: e(t) = (r(t) − Σ_k ar_k r(t − k)) / size.

    Missing residuals are the values that make Σ e² least. This gives the likelihood of the others, because the integral
    of a normal density over some of its variables is its maximum over them, times a factor: see `log_determinant`.
    """

    seen: NDArray[np.bool_]  #: (n,)
    ar: Floats  #: (lags,)
    size: float

    def apply(self, R: Floats) -> Floats:
        """White residuals, (rows, k), of the columns of R, (n, k); rows of missing samples are ignored."""
        if not len(self.ar):
            return R[self.seen] / self.size
        if self.seen.all():
            return whitened(R, self.ar) / self.size
        E = whitened(np.where(self.seen[:, None], R, 0.0), self.ar)
        missing = ~self.seen
        back = whitened(E[::-1], self.ar)[::-1][missing]  # the transposed filter
        filled = np.zeros_like(E)
        filled[missing] = cho_solve_banded((self._factor(), True), back)
        return (E - whitened(filled, self.ar)) / self.size

    @property
    def log_determinant(self) -> float:
        """Of the covariance of the observed residuals."""
        own = 2.0 * math.log(self.size) * int(self.seen.sum())
        if not len(self.ar) or self.seen.all():
            return own
        return own + 2.0 * float(np.log(self._factor()[0]).sum())

    def _factor(self) -> Floats:
        """Cholesky factor of LᵀL in the missing samples, banded, where L is the filter as a matrix."""
        at, n = np.flatnonzero(~self.seen), len(self.seen)
        a, lags = np.concatenate([[1.0], -self.ar]), len(self.ar)
        sums = np.zeros((lags + 1, lags + 1))  # [d, k]: Σ a[j] a[j + d] over j ≤ k
        for k in range(lags + 1):
            sums[k, : lags + 1 - k] = np.cumsum(a[k:] * a[: lags + 1 - k])
        band = np.zeros((min(lags, len(at) - 1) + 1, len(at)))
        for b in range(len(band)):
            later, d = at[b:], at[b:] - at[: len(at) - b]
            near = np.minimum(d, lags)
            last = np.minimum(lags - near, n - 1 - later)  # of the products that are within the record
            band[b, : len(later)] = np.where(d <= lags, sums[near, last], 0.0)
        return np.asarray(cholesky_banded(band, lower=True))

    def negative_log_likelihood(self, r: Floats) -> float:
        """Twice that of residuals, (n,), with the best size; up to a constant."""
        white = self.apply(np.nan_to_num(r)[:, None])
        count = int(self.seen.sum())
        return count * math.log(float(np.sum(white**2)) / count) + self.log_determinant


def autoregression(r: Floats) -> Floats:
    """The coefficients that explain residuals best by Schwarz's criterion; NaN is missing. None of them if r is white.

    They come from Levinson's recursion. If samples are missing, so that covariances are those of pairs, high orders may
    make no sense; their likelihood shows it.
    """
    seen, n = ~np.isnan(r), len(r)
    count = int(seen.sum())
    lags = min(MOST_LAGS, count // SAMPLES_PER_LAG)
    known = np.where(seen, r, 0.0)
    best = ar = np.zeros(0)
    if lags == 0 or not known.any():
        return best
    known = known / np.abs(known).max()
    pairs = np.array([int((seen[k:] & seen[: n - k]).sum()) for k in range(lags + 1)])
    products = np.array([known[k:] @ known[: n - k] for k in range(lags + 1)])
    covariances = products / np.maximum(pairs, 1) * (1.0 - np.arange(lags + 1) / n)
    size, least = covariances[0], Whitening(seen, ar, 1.0).negative_log_likelihood(known)
    for k in range(1, lags + 1):
        partial = float(np.clip((covariances[k] - ar @ covariances[k - 1 : 0 : -1]) / size, -SMALL, SMALL))
        ar = np.concatenate([ar - partial * ar[::-1], [partial]])
        size *= 1.0 - partial**2
        cost = Whitening(seen, ar, 1.0).negative_log_likelihood(known) + k * math.log(count)
        if cost < least:
            best, least = ar, cost
    return best
