"""Which exponentials there are, which evolve, and the autoregression: by a criterion, and averaged over its weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rslm.estimators.series.dynamics.estimate import Estimate, estimate
from rslm.estimators.series.dynamics.innovations import REAL, Group, Likelihood
from rslm.estimators.series.dynamics.seasons import Season, find_season
from rslm.estimators.series.exponentials import Complexes
from rslm.runtime.types import Floats

MOST_AR = 3
SEASONS = 3  # largest number of seasons
SAMPLES_PER_STATE = 3

ONE = np.ones(1, dtype=np.complex128)
FIXED, EVOLVES = Group(ONE, False), Group(ONE, True)
LEVELS: tuple[tuple[Group, ...], ...] = (
    (FIXED,),  # a constant
    (EVOLVES,),  # a wandering level
    (FIXED, FIXED),  # a straight line
    (EVOLVES, FIXED),  # a wandering level with drift
    (EVOLVES, EVOLVES),  # a wandering slope, too
)


class Pool:
    def __init__(self, y: Floats) -> None:
        self.y = y
        self.all: list[Estimate] = []

    def add(self, groups: tuple[Group, ...]) -> Estimate | None:
        observed = int((~np.isnan(self.y)).sum())
        if observed < SAMPLES_PER_STATE * sum(group.states for group in groups):
            return None
        found = estimate(Likelihood(self.y, groups), MOST_AR)
        self.all.append(found)
        return found

    def best_of(self, several: Sequence[tuple[Group, ...]]) -> Estimate | None:
        found = [one for groups in several if (one := self.add(groups)) is not None]
        return min(found, key=lambda one: one.criterion, default=None)


def harmonics(period: float, which: Sequence[int]) -> Complexes:
    z = np.exp(2j * np.pi * np.array(which) / period)
    return np.where(np.abs(z.imag) < REAL, z.real, z)


def variants(season: Season) -> list[Complexes]:
    k = np.arange(1, int(season.period / 2 + 1e-9) + 1)
    sets = {season.harmonics, tuple(range(1, max(season.harmonics) + 1)), tuple(k)}
    return [harmonics(season.period, which) for which in sets]


def search(y: Floats, candidates: Sequence[Complexes] = ()) -> list[Estimate]:
    pool = Pool(y)
    best = pool.best_of(LEVELS)
    assert best is not None
    seasons: tuple[Complexes, ...] = ()
    for _ in range(SEASONS):
        season = find_season(best.found.errors)
        if season is None:
            break
        tried = []
        for poles in variants(season):
            more = (*seasons, poles)
            groups = [
                (*level, *(Group(p, evolves) for p in more)) for level in (LEVELS[1], LEVELS[3]) for evolves in (False, True)
            ]
            found = pool.best_of(groups)
            if found is not None:
                tried.append((found.criterion, more, found))
        if not tried:
            break
        criterion, more, found = min(tried, key=lambda one: one[0])
        if criterion >= best.criterion:
            break
        seasons, best = more, found
    if seasons:
        for evolves in (False, True):
            for level in (LEVELS[0], LEVELS[2], LEVELS[4]):
                pool.add((*level, *(Group(p, evolves) for p in seasons)))
    return pool.all


def weights(estimates: list[Estimate]) -> Floats:
    criteria = np.array([one.criterion for one in estimates])
    w = np.exp(-0.5 * (criteria - criteria.min()))
    return w / w.sum()
