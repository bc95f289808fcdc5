"""Least squares at the rank that stands out of the noise: the fit without the shrinkage of the trace norm.

The trace norm shrinks factors, and most where a treated unit has few outcomes before its treatment; effects of factors
that are correlated with adoption then look like effects of the treatment. The refit starts in the leading singular
vectors of the certified fit and minimises the squares alone. Its rank is the least at which the largest singular value
of the residuals is one of noise: of independent noise, σ(√units + √periods), or of noise that is correlated over time,
which is measured by residuals of which each unit's are shifted in time and have a random sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rslm.estimators.panel.panel import Panel
from rslm.estimators.panel.spectral import Limited, largest
from rslm.estimators.panel.stack import Fitted, fit_stack
from rslm.estimators.panel.two_way import Flags, TwoWay
from rslm.runtime.types import Floats

EXACT = 1e-8  # relative step at which the refit ends
MOST_STEPS = 2000
EDGE = 0.95  # of σ(√units + √periods), the largest singular value of noise, that a factor has to exceed
RANKS = 20  # most factors that are looked for
SHIFTS = 20  # sets of shifted residuals


@dataclass(frozen=True, eq=False)
class Refit:
    """The fit of a rank, without shrinkage."""

    rank: int
    fitted: Fitted
    limit: int  #: the largest rank that the panel determines


def refit(panel: Panel, observed: Flags, W: Floats, rank: int | None) -> Refit:
    """The fit of this rank, or of the rank that stands out of the noise; `W` is where it starts."""
    limit = most_rank(panel, observed)

    def at(r: int) -> Fitted:
        covariates = panel.covariates
        return fit_stack(
            panel.outcomes[None],
            observed[None],
            Limited(r),
            W[None],
            covariates=covariates,
            tol=EXACT,
            most_steps=MOST_STEPS,
        )

    if rank is not None:
        return Refit(min(rank, limit), at(min(rank, limit)), limit)
    two_way = TwoWay(observed[None], panel.covariates)
    for r in range(limit + 1):
        fitted = at(r)
        left = two_way.residual(np.where(observed, panel.outcomes - fitted.W, 0.0))
        if r == limit or float(largest(left)[0]) <= edge(panel, observed, left, r):
            return Refit(r, fitted, limit)
    raise AssertionError("a rank was returned")


def edge(panel: Panel, observed: Flags, left: Floats, rank: int) -> float:
    """The largest singular value that noise like the residuals may have."""
    n, T = panel.shape
    rng = np.random.default_rng(0)
    at = (np.arange(T) + rng.integers(0, T, (SHIFTS, n, 1))) % T
    shifted = np.take_along_axis(np.repeat(left, SHIFTS, axis=0), at, axis=2)
    signs = rng.choice(np.array([-1.0, 1.0]), (SHIFTS, n, 1))
    entries = int(observed.sum())
    lost = math.sqrt(entries / max(entries - degrees(panel, rank), 1.0))  # of the noise, to what was fitted
    of_shifted = lost * float(np.mean(largest(shifted * signs)))
    independent = EDGE * (math.sqrt(n) + math.sqrt(T)) * noise(panel, observed, left, rank)
    return float(max(independent, of_shifted))


def noise(panel: Panel, observed: Flags, left: Floats, rank: float) -> float:
    """The standard deviation of the noise, from the residuals and the degrees of freedom that are left."""
    return float(np.sqrt((left**2).sum() / max(int(observed.sum()) - degrees(panel, rank), 1.0)))


def degrees(panel: Panel, rank: float) -> float:
    """The number of free parameters: unit and period effects, covariates, and a matrix of this rank besides them."""
    n, T = panel.shape
    covariates = 0 if panel.covariates is None else len(panel.covariates)
    return n + T - 1 + covariates + rank * max(n + T - 2 - rank, 0)


def most_rank(panel: Panel, observed: Flags) -> int:
    """Each unit and each period needs an entry more than it has parameters, and there must be two for each of all."""
    counts = min(int(observed.sum(axis=1).min()), int(observed.sum(axis=0).min()))
    rank = 0
    while rank < min(counts - 2, min(panel.shape) - 2, RANKS) and 2 * degrees(panel, rank + 1) <= observed.sum():
        rank += 1
    return rank
