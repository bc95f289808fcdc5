"""Schwarz's criterion (BIC) of a sum of exponentials in noise that may have memory.

A channel of N samples whose whitened residuals have the sum of squares s contributes N log(s/N) + log |Σ|, where Σ is
the covariance of its noise for innovations of variance 1. A parameter costs log N · N/(N − p − 2), the second factor
for small samples. N is the number of samples that tell of the parameter: of a mode that decays, those before it is
over. Real and imaginary parts count as two samples and two parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.estimators.series.modes import Modes
from rslm.estimators.series.variable_projection import Channels, Fit
from rslm.estimators.series.whitening import Flags, Whitening, reflections_of
from rslm.runtime.types import Floats

EXACT = 1e-9  # an error this small relative to the samples is not noise
LASTING = 5.0  # a mode with the decay δ is over after this divided by δ samples
FEWEST = 100.0  # samples that count at least: fewer would let modes follow the noise of the first samples
MEMORY = 3  # most samples that noise remembers


@dataclass(frozen=True, eq=False)
class Scored:
    """A fit with the noise that it leaves."""

    fit: Fit
    whitenings: tuple[Whitening, ...]
    sizes: Floats  #: standard deviation of the innovations of each channel
    criterion: float

    @property
    def order(self) -> int:
        return self.fit.modes.order

    @property
    def memory(self) -> int:
        """The number of samples that the noise remembers, at most over the channels."""
        return max(len(w.reflections) for w in self.whitenings)


def scored(Y: NDArray[Any], fit: Fit, memory: int = MEMORY) -> Scored:
    """The criterion of a fit, with the memory of the noise of each channel that makes it least.

    `Y` is (channels, n) with NaN for missing samples.
    """
    real = 2 if np.iscomplexobj(Y) else 1
    most = 0 if real == 2 else memory
    chosen: list[Whitening] = []
    squares = np.zeros(len(Y))
    shared: dict[bytes, Whitening] = {}
    total, memories = 0.0, 0
    seen = ~np.isnan(Y)
    count = real * int(seen.sum())
    of_modes = _costs(fit.modes, count, real * len(Y))
    for c, (y, signal) in enumerate(zip(Y, fit.signal, strict=True)):
        left = y - signal
        floor = max(EXACT**2 * float(np.nansum(np.abs(y) ** 2)), np.finfo(float).tiny)
        options = _memories(left, seen[c], most, floor, math.log(max(count, 2)))
        _value, whitening, squares[c] = min(options, key=lambda option: option[0])
        if not len(whitening.reflections):
            whitening = shared.setdefault(seen[c].tobytes(), whitening)
        chosen.append(whitening)
        N = real * whitening.observed
        total += N * math.log(max(squares[c], floor) / N) + whitening.log_determinant
        memories += len(whitening.reflections)
    p = fit.modes.parameters + real * fit.modes.order * len(Y) + memories
    price = float(of_modes.sum()) + memories * math.log(count)
    penalty = math.inf if p >= count - 2 else price * count / (count - p - 2)
    sizes = np.sqrt(np.maximum(squares, np.finfo(float).tiny) / np.maximum(seen.sum(axis=1), 1))
    return Scored(replace(fit, squares=squares), tuple(chosen), sizes, total + penalty)


def _costs(modes: Modes, count: int, numbers: int) -> Floats:
    """What the parameters of each mode cost; `count` samples there are, and `numbers` in an amplitude."""
    with np.errstate(divide="ignore"):
        lasting = LASTING / np.maximum(-modes.growth(), 0.0)
    seen = np.minimum(np.maximum(lasting, FEWEST), count)
    free = sum(part.astype(float) for part in modes.free)
    return np.asarray((free + numbers * np.where(modes.pair, 2, 1)) * np.log(np.maximum(seen, 2.0)))


def _memories(
    left: NDArray[Any], seen: Flags, most: int, floor: float, cost: float
) -> list[tuple[float, Whitening, float]]:
    """For every memory of the noise: the part of the criterion that depends on it, the whitening, and the squares."""
    reflections = reflections_of(left, most) if most else np.zeros(0)
    filled = np.where(seen, left, 0.0)
    found = []
    for k in range(len(reflections) + 1):
        whitening = Whitening(seen, reflections[:k])
        squares = float(np.sum(np.abs(whitening(filled)) ** 2))
        value = whitening.observed * math.log(max(squares, floor)) + whitening.log_determinant + k * cost
        found.append((value, whitening, squares))
    return found


def channels_of(Y: NDArray[Any], noise: Scored | None = None, sizes: Floats | None = None) -> Channels:
    """What a fit is compared with: samples with noise as it was found before, or white noise."""
    seen = ~np.isnan(Y)
    if noise is not None:
        ratios = np.maximum(noise.sizes / float(noise.sizes.max()), EXACT)  # a channel may have no noise
        return Channels(np.where(seen, Y, 0.0), noise.whitenings, ratios)
    shared: dict[bytes, Whitening] = {}
    white = tuple(shared.setdefault(s.tobytes(), Whitening(s, np.zeros(0))) for s in seen)
    return Channels(np.where(seen, Y, 0.0), white, np.ones(len(Y)) if sizes is None else sizes)


def best(options: Sequence[Scored]) -> Scored:
    return min(options, key=lambda option: option.criterion)
