"""Synthetic series of known oscillations."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rslm.data import Seed, as_generator
from rslm.runtime.types import Floats

APART = 2.0  # minimum distance of drawn frequencies, in cycles over the whole series: closer ones look like one
AMPLITUDES = 0.5, 1.5


@dataclass(frozen=True, eq=False)
class Series:
    """A synthetic series and everything it was computed from, except the noise."""

    y: Floats  #: the observed samples, NaN where missing
    truth: Floats  #: every sample without noise
    noise_floor: float  #: standard deviation of the noise
    frequencies: Floats  #: cycles per sample, ascending if they were drawn
    dampings: Floats  #: oscillation j decays by exp(−dampings[j]) a sample
    amplitudes: Floats
    phases: Floats  #: in radians
    rank: int  #: rank of the truth's Hankel matrix: two per oscillation, two for a trend


def make_series(
    n_samples: int = 300,
    frequencies: int | Sequence[float] | Floats = 2,
    dampings: float | Sequence[float] | Floats = 0.0,
    trend: float = 0.0,
    noise: float = 0.1,
    missing: float = 0.0,
    random_state: Seed = None,
) -> Series:
    """Damped or undamped oscillations + a straight line + Gaussian noise: ``Σ a_j exp(−d_j t) cos(2π f_j t + φ_j)``.

    Parameters
    ----------
    n_samples : int
    frequencies : int or list of numbers between 0 and 0.5
        The frequencies in cycles per sample, or how many to draw; drawn ones differ by at least 2 / n_samples.
    dampings : number or list of numbers, 0 or more
        One for all oscillations, or one for each; 0 for an undamped oscillation.
    trend : float
        Rise of the straight line from the first sample to the last.
    noise : float
        Standard deviation. The amplitudes are between 0.5 and 1.5.
    missing : float
        Fraction of the samples that is missing, at random positions; 0 or more and below 1.
    random_state : int, RandomState, Generator or None

    Examples
    --------
    >>> from rslm.datasets import make_series
    >>> made = make_series(200, [0.05, 0.12], trend=1.0, missing=0.1, random_state=0)
    >>> made.y.shape, made.rank
    ((200,), 6)
    """
    if n_samples < 2:
        raise ValueError(f"n_samples is {n_samples}, but a series needs at least 2.")
    if not noise >= 0:
        raise ValueError(f"noise is {noise!r}, but a standard deviation of 0 or more is needed.")
    if not 0 <= missing < 1:
        raise ValueError(f"missing is {missing!r}, but a fraction of 0 or more and below 1 is needed.")
    rng = as_generator(random_state)
    f = _given(frequencies) if np.ndim(frequencies) else _drawn(frequencies, n_samples, rng)
    d = _dampings(dampings, len(f))
    a, phases = rng.uniform(*AMPLITUDES, len(f)), rng.uniform(0.0, 2 * np.pi, len(f))
    t = np.arange(n_samples)[:, None]
    truth = (a * np.exp(-d * t) * np.cos(2 * np.pi * f * t + phases)).sum(axis=1)
    truth += np.linspace(0.0, trend, n_samples)
    y = truth + noise * rng.standard_normal(n_samples)
    y[rng.choice(n_samples, int(missing * n_samples), replace=False)] = np.nan
    rank = 2 * len(set(zip(f.tolist(), d.tolist(), strict=True))) + 2 * (trend != 0)
    return Series(y, truth, float(noise), f, d, a, phases, rank)


def _drawn(given: int | Sequence[float] | Floats, n_samples: int, rng: np.random.Generator) -> Floats:
    """Uniform among all sets of frequencies that are far enough from one another, from 0 and from 0.5."""
    count = operator.index(given)  # type: ignore[arg-type]  # a float is refused: it may be a frequency
    gap = APART / n_samples
    room = 0.5 - gap * (count + 1)
    if count < 0 or room < 0:
        most = int(0.5 / gap) - 1
        raise ValueError(
            f"{count} frequencies were requested, but {n_samples} samples can distinguish 0 to {max(most, 0)}. Request "
            "fewer, or give the frequencies themselves."
        )
    return gap * np.arange(1, count + 1) + room * np.sort(rng.random(count))


def _given(frequencies: int | Sequence[float] | Floats) -> Floats:
    f = np.array(frequencies, dtype=np.float64).reshape(-1)
    if not np.all((f > 0) & (f < 0.5)):
        raise ValueError(f"frequencies are {f.tolist()}, but each must be above 0 and below 0.5 cycles per sample.")
    return f


def _dampings(given: float | Sequence[float] | Floats, count: int) -> Floats:
    d = np.array(given, dtype=np.float64)
    if d.ndim > 1 or (d.ndim == 1 and len(d) != count):
        raise ValueError(f"dampings has shape {d.shape}, but one number is needed, or {count}: one per oscillation.")
    if not np.all(d >= 0):
        raise ValueError(f"dampings are {d.tolist()}, but each must be 0 or more.")
    return np.broadcast_to(d, count).copy()
