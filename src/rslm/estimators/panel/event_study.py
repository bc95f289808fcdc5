"""Effects by the time since adoption, and before it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from rslm.estimators.panel.counterfactual import Counterfactual
from rslm.estimators.panel.panel import NEVER, Panel
from rslm.estimators.panel.resampling import METHODS, Refitted
from rslm.estimators.panel.search import Tell
from rslm.estimators.panel.two_way import Flags
from rslm.runtime.types import Floats, Indices64

Table = dict[str, Any]

COLUMNS = ("relative_time", "effect", "standard_error", "lower", "upper", "n")


def weights_at(relative: Indices64, entries: Flags, times: Indices64) -> tuple[Floats, Indices64]:
    """The weights of the average over the entries at each relative time, and how many entries there are."""
    at = entries[None] & (relative[None] == times[:, None, None])
    counts = at.sum(axis=(1, 2))
    return at / counts[:, None, None], counts


def held_out_before(panel: Panel, periods: int) -> Flags:
    """The last untreated entries of each treated unit, to be predicted; at least half of each unit's entries stay."""
    held = np.zeros(panel.shape, dtype=np.bool_)
    control, relative = panel.control, panel.relative
    for i in np.flatnonzero(panel.first != NEVER):
        before = np.flatnonzero(control[i] & (relative[i] < 0) & (relative[i] >= -periods))
        many = min(len(before), int(control[i].sum()) // 2)
        held[i, before[len(before) - many :]] = True
    held[:, ~(control & ~held).any(axis=0)] = False
    return held


@dataclass(frozen=True, eq=False)
class Studied:
    """Average effects with standard errors: over all entries, and by relative time."""

    times: Indices64
    effects: Floats
    errors: Floats
    counts: Indices64
    effect: float  #: over all entries
    error: float

    def table(self, scale: float, level: float, df: float) -> Table:
        """The averages by relative time in the units of the data, with t intervals."""
        effects, errors = scale * self.effects, scale * self.errors
        width = student.ppf(0.5 + 0.5 * level, df) * errors
        columns = self.times, effects, errors, effects - width, effects + width, self.counts
        return dict(zip(COLUMNS, columns, strict=True))

    def trend(self, scale: float, level: float, equivalence: float, df: float) -> dict[str, float]:
        """The average over all entries, the p value of no trend, and a bound on its size."""
        effect, error = scale * self.effect, scale * self.error
        width, narrow = (float(student.ppf(0.5 + 0.5 * share, df)) * error for share in (level, equivalence))
        found = {"effect": effect, "standard_error": error, "lower": effect - width, "upper": effect + width}
        found |= {"p_value": p_value(effect, error, df), "bound": abs(effect) + narrow}
        return found | {"n": int(self.counts.sum())}


@dataclass(frozen=True, eq=False)
class Errors:
    """How standard errors are found: by refits."""

    method: str | None  #: None: they are NaN
    count: int
    rng: np.random.Generator
    n_threads: int
    tell: Tell

    @classmethod
    def none(cls) -> Errors:
        return cls(None, 0, np.random.default_rng(0), 1, lambda words: False)

    def of(self, model: Counterfactual, weights: Floats) -> Floats:
        """The standard errors of averages of the effects at treated entries."""
        if self.method is None:
            return np.full(len(weights), math.nan)
        return METHODS[self.method](Refitted(model, self.n_threads, self.tell), weights, self.count, self.rng)


def after(model: Counterfactual, errors: Errors) -> Studied:
    """Effects by time since adoption."""
    return _studied(model, errors, model.panel.relative, model.panel.affected)


def before(model: Counterfactual, errors: Errors, periods: int) -> Studied | None:
    """Effects of the last periods before adoption, which are held out; None if they cannot be."""
    held = held_out_before(model.panel, periods)
    return _studied(model.without(held), errors, model.panel.relative, held) if held.any() else None


def _studied(model: Counterfactual, errors: Errors, relative: Indices64, entries: Flags) -> Studied:
    times = np.unique(relative[entries])
    weights, counts = weights_at(relative, entries, times)
    whole = (entries / entries.sum())[None]
    found = errors.of(model, np.concatenate([whole, weights]))
    effects = np.nan_to_num(model.panel.outcomes - model.fitted.predicted[0])
    by_time = (weights * effects).sum(axis=(1, 2))
    return Studied(times, by_time, found[1:], counts, float((whole * effects).sum()), float(found[0]))


def joined(first: Table, second: Table) -> Table:
    return {name: np.concatenate([first[name], second[name]]) for name in COLUMNS}


def p_value(effect: float, error: float, df: float) -> float:
    """Of the hypothesis that the effect is 0."""
    return float(2.0 * student.sf(abs(effect) / error, df)) if error > 0 else math.nan
