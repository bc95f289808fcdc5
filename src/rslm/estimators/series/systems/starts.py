"""Pairs from which a fit of an order may start. There are local minima, so there are several."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

from rslm.estimators.series.systems.least_squares import Fit
from rslm.estimators.series.systems.noise import MOST_LAGS, autoregression, whitened
from rslm.estimators.series.systems.pairs import Pair, pair_of
from rslm.estimators.series.systems.record import Record
from rslm.estimators.series.systems.subspace import from_impulse_response, from_windows, pair_from
from rslm.runtime.types import Floats

MOST_REGRESSED = 20  # lags of the long autoregression
SAMPLES_PER_LAG = 4  # for every output and input
SHORT = 3  # the short window is the long one divided by this


@dataclass(frozen=True)
class Starts:
    """Observability matrices of a record whose missing samples were filled."""

    spaces: tuple[Floats, ...]
    outputs: int
    radius: float
    window: int

    def of_order(self, order: int) -> list[Pair]:
        enough = (s for s in self.spaces if order <= min(s.shape[1], len(s) - self.outputs))
        return [pair_from(s, order, self.outputs, self.radius) for s in enough]

    def extending(self, fit: Fit, record: Record, order: int) -> list[Pair]:
        """The pair of a fit of lower order, together with one that explains its residuals."""
        residuals = np.nan_to_num(record.Y - fit.signal(record))
        ar = common_autoregression(residuals)
        window = short(self.window)
        space = from_windows(whitened(residuals.T, ar).T, whitened(_centred(record.U).T, ar).T, window)
        more = order - fit.pair.order
        if more > min(space.shape[1], len(space) - self.outputs):
            return []
        other = pair_from(space, more, self.outputs, self.radius)
        return [pair_of(block_diag(fit.pair.A, other.A), np.hstack([fit.pair.C, other.C]), self.radius)]


def first_starts(filled: Floats, U: Floats, window: int, radius: float) -> Starts:
    """Before anything is known of the noise."""
    Y, U = _centred(filled), _centred(U)
    outputs, n = Y.shape
    lags = max(min(MOST_REGRESSED, n // (SAMPLES_PER_LAG * (outputs + len(U)))), 1)
    return Starts((from_impulse_response(Y, U, window, lags),), outputs, radius, window)


def starts_with_noise(filled: Floats, U: Floats, window: int, radius: float, ar: Floats) -> Starts:
    """With the autoregression `ar` of the noise, by which windows are whitened."""
    first = first_starts(filled, U, window, radius)
    Y, U = (whitened(_centred(X).T, ar).T for X in (filled, U))
    windows = {short(window), window}
    return Starts((*first.spaces, *(from_windows(Y, U, w) for w in sorted(windows))), len(Y), radius, window)


def common_autoregression(R: Floats) -> Floats:
    """Of all outputs together, each divided by its size."""
    sizes = np.sqrt(np.nanmean(R**2, axis=1, keepdims=True))
    scaled = R / np.where(sizes > 0, sizes, 1.0)
    return autoregression(np.pad(scaled, [(0, 0), (0, MOST_LAGS)], constant_values=np.nan).ravel())


def short(window: int) -> int:
    return max(window // SHORT, 2)


def _centred(X: Floats) -> Floats:
    return np.asarray(X - X.mean(axis=1, keepdims=True))
