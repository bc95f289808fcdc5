"""The period of a season, from the one-step errors of a model without it.

Errors of a right model are white: at every frequency, the periodogram in units of the variance is about exponential
with mean 1. A season is a fundamental frequency f with harmonics k f at which the periodogram is larger. A harmonic
counts if twice the periodogram exceeds 2 log n, the price of its two coefficients in Schwarz's criterion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.fft import next_fast_len, rfft
from scipy.ndimage import median_filter

from rslm.runtime.types import Floats

CYCLES = 3  # fewest in a series from which a season is learnt
FINE = 8  # zero padding: frequencies are looked up to 1 / (FINE n)
SURE = 5.0  # logarithm of the odds against chance at one of many frequencies
NEIGHBOURS = 8  # on each side, at multiples of 1 / n, from which the level of a spectrum is taken
PEAKS = 6  # of the periodogram, from which fundamentals are derived


@dataclass(frozen=True)
class Season:
    period: float
    harmonics: tuple[int, ...]  #: those that stand out, the largest first
    score: float


def find_season(errors: Floats) -> Season | None:
    """The season that stands out most, if there is one."""
    n = len(errors)
    size = next_fast_len(FINE * n)
    centred = errors - errors.mean()
    total = float(centred @ centred)
    if total == 0.0:
        return None
    power = np.abs(rfft(centred, size)) ** 2 / total
    price = np.log(n)
    excess = 2 * (power / np.maximum(_background(power, size // n), 1.0) - price)
    excess[: int(np.ceil(CYCLES * size / n))] = 0.0  # slower than a season can be
    found = [_season(excess, size, 1.0 / m) for m in range(2, n // CYCLES + 1)]
    found += [_refined(excess, size, n, f) for f in _fundamentals(excess, size, n)]
    best: Season | None = None
    # Shorter periods first: their multiples have harmonics at the same frequencies, and more. Most periods are whole;
    # others come as late as whole ones of twice their length.
    for season in sorted(found, key=lambda one: one.period * (1 if one.period == round(one.period) else 2)):
        if season.score > (best.score + 2 * price if best else 2 * SURE):
            best = season
    return best


def _background(power: Floats, spacing: int) -> Floats:
    """The level around every frequency, where errors are not white: a running median, which lines hardly change."""
    coarse = power[:: max(spacing, 1)]
    level = median_filter(coarse, 2 * NEIGHBOURS + 1, mode="nearest") / np.log(2)
    return np.asarray(np.interp(np.arange(len(power)), np.arange(len(coarse)) * max(spacing, 1), level))


def _season(excess: Floats, size: int, f: float) -> Season:
    k = np.arange(1, int(0.5 / f + 1e-9) + 1)
    gains = excess[np.minimum(np.round(k * f * size).astype(int), len(excess) - 1)]
    order = np.argsort(-gains, kind="stable")
    return Season(1.0 / f, tuple(int(k[i]) for i in order if gains[i] > 0), float(np.maximum(gains, 0.0).sum()))


def _fundamentals(excess: Floats, size: int, n: int) -> list[float]:
    inner = np.flatnonzero((excess[1:-1] > 0) & (excess[1:-1] >= excess[:-2]) & (excess[1:-1] > excess[2:])) + 1
    peaks = inner[np.argsort(-excess[inner])][:PEAKS] / size
    return [f / j for f in peaks for j in range(1, 7) if f / j >= CYCLES / n]


def _refined(excess: Floats, size: int, n: int, f: float) -> Season:
    near = np.clip(f + np.linspace(-0.25, 0.25, 21) / n, CYCLES / n, 0.5)
    return max((_season(excess, size, g) for g in near), key=lambda season: season.score)
