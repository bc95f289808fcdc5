"""One-step errors of exponentials that evolve, in autoregressive noise, and their likelihood.

The series is ``y = Σ_j β_j b_j + ψ(q) e`` with white innovations e, where q is the shift by a sample and b_j are the
exponentials of poles z. Poles come in groups, and each group has a memory ρ between 0 and 1:

    ψ(q) = 1 / φ(q) · Π_groups Π_{z in group} (1 − ρ z q) / (1 − z q)

A group with ρ = 1 is deterministic: its factors cancel. With ρ < 1 its exponentials evolve: a one-step error corrects
them, the more the smaller ρ is. A pole 1 with ρ < 1 is exponential smoothing, two of them are Holt's trend, and the
harmonics of a season with a common ρ are exponential smoothing of the season. φ is a stationary autoregression.

So errors are a filter of the series, ``e = ψ(q)⁻¹ (y − Σ β_j b_j)``, with zeros before the first sample. Exponentials
are filtered likewise, and their coefficients, which stand for the unknown initial state, are found by least squares. A
missing sample is one more unknown: a column with a single 1. With these unknowns integrated over, the likelihood is
that of the observed samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter, sosfilt

from rslm.estimators.series.dynamics import autoregression
from rslm.estimators.series.dynamics.gaps import Elimination, eliminate, rows_of_gaps
from rslm.estimators.series.exponentials import Complexes
from rslm.runtime.types import Floats

TINY = float(np.finfo(float).tiny)
REAL = 1e-9  # poles with smaller imaginary parts are real
Memories = tuple[float, ...]


@dataclass(frozen=True)
class Group:
    """Poles with one memory, in which conjugates come once: those with imaginary parts ≥ 0."""

    poles: Complexes
    evolves: bool  #: whether the memory is below 1
    price: float = 0.0  #: parameters that finding the poles has cost

    @property
    def states(self) -> int:
        return int(sum(1 if abs(z.imag) < REAL else 2 for z in self.poles))


def sections(groups: tuple[Group, ...], memories: Memories) -> Floats:
    """ψ(q)⁻¹ without its autoregression, as second-order sections: long polynomials would lose digits."""
    rows = []
    for group, rho in zip(groups, memories, strict=True):
        if rho == 1.0:
            continue
        for z in group.poles:
            if abs(z.imag) < REAL:
                rows.append([1.0, -z.real, 0.0, 1.0, -rho * z.real, 0.0])
            else:
                size = abs(z) ** 2
                rows.append([1.0, -2 * z.real, size, 1.0, -2 * rho * z.real, rho**2 * size])
    return np.array(rows).reshape(-1, 6)


def inverse(filters: Floats) -> Floats:
    return np.ascontiguousarray(filters[:, [3, 4, 5, 0, 1, 2]])


def filtered(filters: Floats, rows: Floats) -> Floats:
    return np.asarray(sosfilt(filters, rows, axis=-1)) if len(filters) else rows


def responses(filters: Floats, partial: Floats, errors: Floats) -> Floats:
    """ψ(q) e, for rows of e that are zero before their first sample."""
    found = filtered(inverse(filters), errors)
    return np.asarray(lfilter([1.0], np.append(1.0, -autoregression.coefficients(partial)), found, axis=-1))


def basis(groups: tuple[Group, ...], n: int, length: int) -> Floats:
    """Real exponentials of all poles in rows, at 0, …, length − 1; repeated poles are multiplied by powers of t / n."""
    t = np.arange(length)
    rows: list[Floats] = []
    seen: dict[complex, int] = {}
    for z in (complex(z) for group in groups for z in group.poles):
        times = seen[z] = seen.get(z, -1) + 1
        wave = (t / n) ** times * abs(z) ** t
        if abs(z.imag) < REAL:
            rows.append(wave * np.sign(z.real) ** t)
        else:
            angle = np.angle(z) * t
            rows += [wave * np.cos(angle), wave * np.sin(angle)]
    return np.array(rows).reshape(-1, length)


@dataclass(frozen=True)
class Evaluation:
    """Errors and likelihood at given memories and partial correlations.

    A deviance is −2 log likelihood up to a constant, at the best standard deviation. The restricted one is that of the
    part of the series that no coefficients of the exponentials can explain: it is hardly biased towards long memories.
    """

    errors: Floats  #: (n,) the innovations, standardised in the first samples of an autoregression
    squares: float  #: their sum
    deviance: float
    restricted: float
    scaled: Floats  #: errors whose sum of squares is least where the restricted deviance is
    R: Floats  #: of the QR factorisation of the exponentials
    projected: Floats  #: Qᵀ times the series
    gaps: Elimination | None

    @property
    def coefficients(self) -> Floats:
        """Of the exponentials."""
        return np.linalg.lstsq(self.R, self.projected, rcond=None)[0]


class Likelihood:
    """Of a series with poles in groups; NaN is missing."""

    def __init__(self, y: Floats, groups: tuple[Group, ...]) -> None:
        self.groups = groups
        self.n = len(y)
        self.missing = np.flatnonzero(np.isnan(y))
        self.observed = self.n - len(self.missing)
        exponentials = basis(groups, self.n, self.n)
        self.states = len(exponentials)
        impulse = np.eye(1, self.n) if len(self.missing) else np.zeros((0, self.n))
        self.rows = np.concatenate([impulse, exponentials, np.nan_to_num(y)[None]])
        seen = exponentials[:, ~np.isnan(y)]
        self.log_basis = float(np.linalg.slogdet(seen @ seen.T)[1]) if len(seen) else 0.0
        self._last: tuple[Memories, Floats] | None = None

    def _filtered(self, memories: Memories) -> tuple[Floats, Floats]:
        """Impulse response, if samples are missing; exponentials and series."""
        if self._last is None or self._last[0] != memories:
            self._last = memories, filtered(sections(self.groups, memories), self.rows)
        found = self._last[1]
        return found[: -self.states - 1], found[-self.states - 1 :]

    def residual(self, memories: Memories) -> Floats:
        """The noise before its autoregression, by ordinary least squares."""
        return self.evaluate(memories, np.zeros(0)).errors

    def evaluate(self, memories: Memories, partial: Floats) -> Evaluation:
        impulse, rows = self._filtered(memories)
        white = autoregression.whitened(rows, partial)
        log_det = autoregression.log_determinant(partial)
        gaps = None
        if len(impulse):
            gaps = eliminate(rows_of_gaps(self.missing, impulse[0], partial), white)
            white, log_det = gaps.rows, log_det + gaps.log_determinant
        Q, R = np.linalg.qr(white[:-1].T)
        projected = white[-1] @ Q
        errors = white[-1] - Q @ projected
        squares = max(float(errors @ errors), TINY)
        of_states = 2 * float(np.log(np.maximum(np.abs(np.diag(R)), TINY)).sum()) - self.log_basis
        free = max(self.observed - self.states, 1)
        restricted = free * np.log(squares / free) + log_det + of_states
        deviance = self.observed * np.log(squares / self.observed) + log_det
        scaled = errors * np.exp((log_det + of_states) / (2 * free))
        return Evaluation(errors, squares, float(deviance), float(restricted), scaled, R, projected, gaps)

    def filled(self, found: Evaluation) -> Floats:
        """The series with estimates of the missing samples."""
        series: Floats = self.rows[-1].copy()
        if found.gaps is not None:
            series[self.missing] = -found.gaps.coefficients(found.coefficients)
        return series
