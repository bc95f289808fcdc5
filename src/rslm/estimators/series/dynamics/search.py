"""Which exponentials there are, which of them evolve, and in what noise: several answers, with weights.

The level is a constant, or wanders, or wanders with a drift, or its slope wanders, too. To it come seasons that stand
out of the spectrum of one-step errors, or oscillations whose poles are given, as long as the criterion falls.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rslm.estimators.series.dynamics.estimate import Estimate, estimate
from rslm.estimators.series.dynamics.innovations import REAL, Group, Likelihood
from rslm.estimators.series.dynamics.seasons import Season, find_season
from rslm.estimators.series.exponentials import Complexes
from rslm.runtime.types import Floats

MOST_AR = 3
MOST_SEASONS = 3
MOST_HARMONICS = 12
SAMPLES_PER_STATE = 3
LEVEL = 0.9  # real poles from here on are part of the level or trend, which is always there
EXACT = 1e-10  # relative size of errors that are rounding errors
SHARE = 0.25  # of the difference in the criterion that counts in weights: it is the least of many
LEAST_WEIGHT = 0.01

ONE = np.ones(1, dtype=np.complex128)
FIXED, EVOLVES = Group(ONE, False), Group(ONE, True)
CONSTANT, WALK, DRIFT, SLOPE = (FIXED,), (EVOLVES,), (EVOLVES, FIXED), (EVOLVES, EVOLVES)

Groups = tuple[Group, ...]


class _Pool:
    """Estimates so far."""

    def __init__(self, y: Floats) -> None:
        self.y = y
        self.observed = int((~np.isnan(y)).sum())
        self.all: list[Estimate] = []

    def best_of(self, several: Sequence[Groups], most: int = MOST_AR) -> Estimate | None:
        """Estimate all that have enough samples."""
        found = [
            estimate(Likelihood(self.y, groups), most)
            for groups in several
            if self.observed >= SAMPLES_PER_STATE * sum(group.states for group in groups)
        ]
        self.all += found
        return min(found, key=lambda one: one.criterion, default=None)


def search(y: Floats, candidates: Sequence[Complexes]) -> tuple[list[Estimate], Floats]:
    """Estimates and their weights, the largest first. Candidates are sets of poles that may be in the series."""
    pool = _Pool(y)
    best = pool.best_of([CONSTANT, WALK, DRIFT, SLOPE])
    if best is None:
        return [estimate(Likelihood(y, WALK), 0)], np.ones(1)
    level, more = best.likelihood.groups, _oscillations(best, y, candidates)
    seasons: Groups = ()
    for _ in range(MOST_SEASONS):
        found = None if _is_exact(best, y) else pool.best_of([(*level, *seasons, group) for group in more])
        if found is None or found.criterion >= best.criterion:
            break
        best, seasons = found, found.likelihood.groups[len(level) :]
        more = _evolving_or_not(_seasons([best]))
    if seasons:
        pool.best_of([(*other, *seasons) for other in (CONSTANT, WALK, DRIFT, SLOPE) if other != level])
    pool.best_of([(*other, *seasons) for other in (WALK, DRIFT)], 0)  # plain smoothing, which seldom fails badly
    return _weighted(pool.all)


def _is_exact(best: Estimate, y: Floats) -> bool:
    return best.found.squares <= EXACT**2 * float(np.nansum(y**2))


def _oscillations(best: Estimate, y: Floats, candidates: Sequence[Complexes]) -> list[Group]:
    # An autoregression of order 2 can pass for a season; one of order 1 cannot.
    plain = [estimate(Likelihood(y, groups), 1) for groups in (CONSTANT, DRIFT)]
    given = []
    for poles in candidates:
        z = np.asarray(poles, dtype=np.complex128) / np.maximum(np.abs(poles), 1.0)
        z = np.where(np.abs(z.imag) < REAL, z.real + 0j, z)
        z = z[(z.imag > 0) | ((z.imag == 0) & (z.real < LEVEL))]
        if len(z):
            searched = sum(2 if pole.imag else 1 for pole in z)  # frequencies and dampings, like the period of a season
            given.append((z, searched * float(np.log(len(y)))))
    return _evolving_or_not(_seasons([best, *plain]) + given)


def _seasons(estimates: list[Estimate]) -> list[tuple[Complexes, float]]:
    """Poles of seasons that stand out of the errors, and the price of a period that was searched for."""
    found = {season.period: season for one in estimates if (season := find_season(one.found.errors)) is not None}
    price = float(np.log(estimates[0].likelihood.n))
    return [(poles, price) for season in found.values() for poles in _harmonics(season)]


def _harmonics(season: Season) -> list[Complexes]:
    """Those that stand out, and all, unless there are many."""
    every = tuple(range(1, int(season.period / 2 + 1e-9) + 1))
    found = []
    for which in sorted({tuple(sorted(season.harmonics[:MOST_HARMONICS])), every[:MOST_HARMONICS]}):
        z = np.exp(2j * np.pi * np.array(which) / season.period)
        found.append(np.where(np.abs(z.imag) < REAL, z.real, z))
    return found


def _evolving_or_not(several: list[tuple[Complexes, float]]) -> list[Group]:
    return [Group(poles, evolves, price) for poles, price in several for evolves in (False, True)]


def _weighted(estimates: list[Estimate]) -> tuple[list[Estimate], Floats]:
    criteria = np.array([one.criterion for one in estimates])
    weights = np.exp(-0.5 * SHARE * (criteria - criteria.min()))
    order = [k for k in np.argsort(-weights, kind="stable") if weights[k] >= LEAST_WEIGHT]
    return [estimates[k] for k in order], weights[order] / weights[order].sum()
