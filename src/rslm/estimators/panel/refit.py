"""The factor model at the rank that stands out of the noise: the fit without the shrinkage of the trace norm.

The trace norm shrinks factors, and most where a treated unit has few outcomes before its treatment; effects of factors
that are correlated with adoption then look like effects of the treatment. The refit starts in the leading singular
vectors of the certified fit. Its rank is the least at which the largest singular value of the residuals is one of
noise: of independent noise, σ(√units + √periods), or of noise that is correlated over time, which is measured by
residuals of which each unit's are shifted in time and have a random sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rslm.estimators.panel.factor_model import Factored, fit_factors
from rslm.estimators.panel.panel import NEVER, Panel
from rslm.estimators.panel.spectral import TINY, largest
from rslm.runtime.types import Floats

EXACT = 1e-6  # relative step at which the refit ends
MOST_STEPS = 1000
EDGE = 0.95  # of σ(√units + √periods), the largest singular value of noise, that a factor has to exceed
RANKS = 20  # most factors that are looked for
SHIFTS = 20  # sets of shifted residuals


@dataclass(frozen=True, eq=False)
class Refit:
    """The fit of a rank."""

    rank: int
    factored: Factored


def refit(panel: Panel, W: Floats, rank: int | None) -> Refit:
    """The fit of this rank, or of the rank that stands out of the noise; `W` is where it starts."""
    limit, observed = most_rank(panel), panel.control

    def at(r: int) -> Refit:
        adopters, known = panel.first[None] != NEVER, panel.covariates
        given = panel.outcomes[None], observed[None], adopters, r, W[None]
        return Refit(r, fit_factors(*given, covariates=known, tol=EXACT, most_steps=MOST_STEPS))

    if rank is not None:
        return at(min(rank, limit))
    for r in range(limit):
        found = at(r)
        left = np.where(observed, panel.outcomes - found.factored.fitted.predicted, 0.0)
        if float(largest(left)[0]) <= edge(left, int(observed.sum()), float(found.factored.noise[0])):
            return found
    return at(limit)


def edge(left: Floats, entries: int, noise: float) -> float:
    """The largest singular value of noise of this standard deviation that is correlated over time like the residuals.

    `left` has the shape (1, units, periods), with 0 where nothing is observed.
    """
    _, n, T = left.shape
    rng = np.random.default_rng(0)
    at = (np.arange(T) + rng.integers(0, T, (SHIFTS, n, 1))) % T
    shifted = np.take_along_axis(np.repeat(left, SHIFTS, axis=0), at, axis=2)
    signs = rng.choice(np.array([-1.0, 1.0]), (SHIFTS, n, 1))
    lost = noise / max(math.sqrt(float((left**2).sum()) / entries), TINY)  # of the noise, to what was fitted
    of_shifted = lost * float(np.mean(largest(shifted * signs)))
    return float(max(EDGE * (math.sqrt(n) + math.sqrt(T)) * noise, of_shifted))


def noise(panel: Panel, left: Floats, rank: float) -> float:
    """The standard deviation of the noise, from residuals and the degrees of freedom that the fit leaves."""
    return float(np.sqrt((left**2).sum() / max(int(panel.control.sum()) - degrees(panel, rank), 1.0)))


def degrees(panel: Panel, rank: float) -> float:
    """The number of free parameters: unit and period effects, covariates, and a matrix of this rank besides them."""
    n, T = panel.shape
    covariates = 0 if panel.covariates is None else len(panel.covariates)
    return n + T - 1 + covariates + rank * max(n + T - 2 - rank, 0)


def most_rank(panel: Panel) -> int:
    """Each unit and each period needs an entry more than it has parameters, and there must be two for each of all."""
    observed = panel.control
    counts = min(int(observed.sum(axis=1).min()), int(observed.sum(axis=0).min()))
    rank = 0
    while rank < min(counts - 2, min(panel.shape) - 2, RANKS) and 2 * degrees(panel, rank + 1) <= observed.sum():
        rank += 1
    return rank
