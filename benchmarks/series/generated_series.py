"""Generated series: trends, seasons and damped sinusoids, in white, autoregressive and integrated noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from real_series import Series
from scipy.signal import lfilter

from rslm.runtime.types import Floats

SAMPLES = 240
NOISE = 0.5
WARM_UP = 100


def _trend(rng: Any, t: Floats) -> Floats:
    return np.asarray(10 + rng.uniform(-0.03, 0.03) * t)


def _season(rng: Any, t: Floats) -> Floats:
    a, b = rng.uniform(0, 2 * np.pi, 2)
    return np.asarray(_trend(rng, t) + 1.5 * np.cos(2 * np.pi * t / 12 + a) + 0.6 * np.cos(2 * np.pi * t / 6 + b))


def _damped(rng: Any, t: Floats) -> Floats:
    (f, g), (a, b) = rng.uniform(0.02, 0.4, 2), rng.uniform(0, 2 * np.pi, 2)
    return np.asarray(4 * 0.993**t * np.cos(2 * np.pi * f * t + a) + 2 * 0.997**t * np.cos(2 * np.pi * g * t + b))


def _break(rng: Any, t: Floats) -> Floats:
    return np.asarray(_season(rng, t) + 3.0 * (t >= rng.integers(60, SAMPLES)))


def _white(rng: Any, n: int) -> Floats:
    return np.asarray(NOISE * rng.standard_normal(n))


def _autoregressive(rng: Any, n: int) -> Floats:
    steps = NOISE * np.sqrt(1 - 0.7**2) * rng.standard_normal(n + WARM_UP)
    return np.asarray(lfilter([1.0], [1.0, -0.7], steps)[WARM_UP:])


def _walk(rng: Any, n: int) -> Floats:
    return np.asarray(np.cumsum(0.4 * NOISE * rng.standard_normal(n)) + 0.5 * _white(rng, n))


SIGNALS: dict[str, tuple[Callable[[Any, Floats], Floats], int]] = {
    "trend": (_trend, 1),
    "season": (_season, 12),
    "damped": (_damped, 1),
    "break": (_break, 12),
}
NOISES: dict[str, Callable[[Any, int], Floats]] = {"white": _white, "AR(1)": _autoregressive, "walk": _walk}


def generated(seed: int) -> list[Series]:
    """One series of every signal and noise."""
    found = []
    for s, (signal, (make, period)) in enumerate(SIGNALS.items()):
        for k, (noise, add) in enumerate(NOISES.items()):
            rng = np.random.default_rng([seed, s, k])
            samples = make(rng, np.arange(float(SAMPLES))) + add(rng, SAMPLES)
            found.append(Series(f"{signal}, {noise}", samples, period))
    return found
