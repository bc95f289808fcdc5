"""Errors of forecasts from earlier origins, from which the intervals of new forecasts follow.

Each origin forecasts the rest of the series from the samples before it. Poles and amplitudes are those of a quick fit
to these samples; only the order, and which samples are spikes, come from the whole series. An error is divided by the
size that the fit expects at its horizon if the noise is white. Where noise is correlated or the structure changes,
errors grow otherwise, so the factor of a horizon is a quantile of the scores at similar horizons.

Errors of neighbouring horizons are alike, so there is less to learn from them than their number says. N errors with
autocorrelations ρ tell as much of a variance as ν = N / Σ ρ² independent normal ones, and the quantile is multiplied by
the ratio of Student's quantile with ν degrees of freedom to the normal one. For a forecast of h steps, ρ is that of
errors at horizons up to 2h: a drift that shows after a hundred steps says nothing about the first ten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.stats import norm as normal
from scipy.stats import t as student

from rslm.data import parts
from rslm.estimators.series.exponentials import (
    Complexes,
    extrapolated,
    fit_modes,
    growth_of_errors,
    left_space,
    poles_of,
)
from rslm.estimators.series.orders import EXACT, GROWTH, is_exact, too_steep
from rslm.estimators.series.pilot import interpolated
from rslm.evaluate.intervals import Calibration, check_coverage, least_scores
from rslm.runtime.types import Floats
from rslm.storage.container import Arrays
from rslm.structures import Hankel

ORIGINS = 12  # more cost time, and their errors are alike
LEAST_PREFIX = 4  # samples in every channel from which a forecast is made
SAMPLES_PER_PARAMETER = 2
FILLINGS = 2  # quick fits of an origin if samples are missing
MOST_HORIZONS = 250  # that are kept; of longer series they are in geometric progression
NEAR = 0.7  # standard deviation of the weights of scores, in doublings of the horizon
GROSS = 8.0  # errors are cut at this many medians before they are correlated
LEAST_PAIRS = 8  # of errors, for an autocorrelation
LEAST_FREEDOM = 3.0  # with fewer degrees of freedom intervals would be wide beyond use
MOST_SAMPLES = 2**40  # in a file


@dataclass(frozen=True)
class RollingErrors:
    """Scores of forecasts from earlier origins: errors in units of their expected sizes."""

    scores: Floats
    horizons: Floats  #: of the scores
    samples: int  #: that were forecast at least once
    redundancy: Floats  #: Σ ρ² of the errors at horizons up to 2, 4, 8, …: how many count as one

    def factors(self, steps: int, coverage: float) -> Floats:
        """By which the expected sizes of the errors at the horizons 1, …, `steps` are multiplied."""
        check_coverage(coverage)
        if (least := least_scores(coverage)) > self.samples:
            raise ValueError(
                f"coverage={coverage:g} needs at least {least} observed samples in the second half of the series, "
                f"which are forecast from those before; there are {self.samples}. Lower the coverage, or fit a longer "
                "series"
            )
        order = np.argsort(self.scores, kind="stable")
        scores, known = self.scores[order], np.log2(self.horizons[order])
        ahead = np.minimum(np.log2(np.arange(1, steps + 1)), known.max())
        found, count = np.empty(steps), np.empty(steps)
        for k, horizon in enumerate(ahead):
            near = np.exp(-0.5 * ((known - horizon) / NEAR) ** 2)
            count[k] = near.sum() ** 2 / (near @ near)
            found[k] = Calibration(scores, near).weighted_factors(coverage, np.zeros(()))
        redundancy = np.interp(ahead, np.arange(len(self.redundancy)), self.redundancy)
        freedom = np.maximum(np.minimum(count, self.samples) / redundancy, LEAST_FREEDOM)
        tail = 0.5 + 0.5 * coverage
        return np.asarray(found * (student.ppf(tail, freedom) / normal.ppf(tail)))

    def to_arrays(self) -> Arrays:
        return {
            "rolling_scores": self.scores,
            "rolling_horizons": self.horizons,
            "rolling_samples": np.array([self.samples]),
            "rolling_redundancy": self.redundancy,
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self | None:
        """What a file holds; None if it was written before forecasts had such scores."""
        if "rolling_scores" not in arrays:
            return None
        scores = parts.floats(arrays, "rolling_scores", None)
        horizons = parts.floats(arrays, "rolling_horizons", len(scores))
        samples = int(parts.positions(arrays, "rolling_samples", 1, MOST_SAMPLES)[0])
        redundancy = parts.floats(arrays, "rolling_redundancy", None)
        if (scores < 0).any() or (horizons < 1).any() or (redundancy < 1).any():
            raise ValueError("rolling_scores")
        if samples and not (len(scores) and len(redundancy)):
            raise ValueError("rolling_samples")
        return cls(scores, horizons, samples, redundancy)


def rolling_errors(Y: Floats, order: int, window: int) -> RollingErrors:
    """Forecast the second half of Y, of shape (channels, n) with NaN for missing samples, from several origins."""
    n = Y.shape[1]
    first = _first_origin(Y)
    last = n - max(n // 8, 1)
    origins = np.unique(np.linspace(first, last, ORIGINS).astype(int)) if first <= last else np.zeros(0, dtype=int)
    errors = np.full((len(origins), len(Y), n - first), np.nan)  # by horizon
    for k, origin in enumerate(origins):
        errors[k, :, : n - origin] = _relative_errors(Y, int(origin), order, window)
    horizons = np.arange(1, n - first + 1)
    kept = np.unique(np.geomspace(1, len(horizons), MOST_HORIZONS).astype(int)) if len(horizons) else horizons
    kept = (horizons if len(horizons) <= MOST_HORIZONS else kept) - 1
    scores = np.abs(errors[:, :, kept])
    known = ~np.isnan(scores)
    samples = int((~np.isnan(Y[:, first:])).any(axis=0).sum()) if len(origins) else 0
    at = np.broadcast_to(horizons[kept].astype(float), scores.shape)
    doublings = 1 << np.arange(int(n - first).bit_length())  # 1, 2, 4, … up to the longest horizon
    redundancy = [_redundancy(errors[:, :, : 2 * h]) for h in doublings]
    return RollingErrors(scores[known], at[known], samples, np.array(redundancy))


def _first_origin(Y: Floats) -> int:
    """The middle of the series, or later if a channel has too few samples before it."""
    enough = (np.cumsum(~np.isnan(Y), axis=1) >= LEAST_PREFIX).all(axis=0)
    return int(max(Y.shape[1] // 2, np.argmax(enough) + 1))


def _relative_errors(Y: Floats, origin: int, order: int, window: int) -> Floats:
    """Errors of the forecasts from an origin in units of their expected sizes, (channels, horizons)."""
    before, after = Y[:, :origin], Y[:, origin:]
    seen = ~np.isnan(before)
    channels, counts = len(Y), seen.sum(axis=1)
    order = min(order, int(counts.sum()) // (SAMPLES_PER_PARAMETER * (1 + channels)))
    window = min(window, (origin + 1) // 2)
    order = min(order, window - 1, channels * (origin - window + 1) - 1)
    poles, left = _quick_poles(before, order, window)
    steps = after.shape[1]
    freedom = np.maximum(counts - order * (1 + 1 / channels), 1.0)
    noise = np.sqrt(left / freedom)
    sizes = noise * growth_of_errors(poles, seen, steps)
    least = EXACT * np.sqrt(np.nansum(before**2) / counts.sum())  # smaller errors are rounding errors
    with np.errstate(over="ignore", invalid="ignore"):
        found = (after - extrapolated(poles, before, steps)) / np.maximum(sizes.T, max(least, np.finfo(float).tiny))
    return np.where(np.isnan(after), np.nan, np.nan_to_num(found, nan=np.finfo(float).max))


def _quick_poles(Y: Floats, order: int, window: int) -> tuple[Complexes, Floats]:
    """Poles from the column space of the Hankel matrix, and the sum of squared residuals of every channel."""
    channels, n = Y.shape
    poles: Complexes = np.zeros(0, dtype=np.complex128)
    signal, filled = np.zeros_like(Y), interpolated(Y)
    structure, missing = Hankel(window, n - window + 1, channels), np.isnan(Y)
    for _ in range((FILLINGS if missing.any() else 1) if order > 0 else 0):
        poles = poles_of(left_space(structure, filled.ravel(), order)[0])
        signal = fit_modes(poles, Y)[1]
        if too_steep(poles, n) and not is_exact(float(np.nansum((Y - signal) ** 2)), float(np.nansum(Y**2))):
            most = GROWTH ** (1.0 / n)
            poles = poles * (most / np.maximum(np.abs(poles), most))
            signal = fit_modes(poles, Y)[1]
        filled = np.where(missing, signal, Y)
    return poles, np.asarray(np.nansum((Y - signal) ** 2, axis=1))


def _redundancy(errors: Floats) -> float:
    """Σ ρ² over the lags up to half of the horizons, which are the last axis."""
    rows = errors.reshape(-1, errors.shape[-1])
    known = ~np.isnan(rows)
    most = GROSS * float(np.median(np.abs(rows[known]))) if known.any() else 0.0
    if most == 0.0:
        return 1.0
    pairs = np.round(_lagged_products(known.astype(float)))
    products = _lagged_products(np.where(known, np.clip(np.nan_to_num(rows), -most, most) / most, 0.0))
    lags = np.arange(1, (rows.shape[1] + 1) // 2)
    lags = lags[pairs[lags] >= LEAST_PAIRS]
    correlations = products[lags] / products[0] * (pairs[0] / pairs[lags])
    squares = np.minimum(correlations**2, 1.0) - 1.0 / pairs[lags]  # independent errors would have squares of 1 / pairs
    return 1.0 + 2.0 * float(np.maximum(squares, 0.0).sum())


def _lagged_products(rows: Floats) -> Floats:
    """Σ x_h x_{h+k} over the rows, for all lags k."""
    n = rows.shape[1]
    size = next_fast_len(2 * n)
    spectrum = np.sum(np.abs(rfft(rows, size, axis=1)) ** 2, axis=0)
    return np.asarray(irfft(spectrum, size)[:n])
