"""Standard errors of averages of effects, by many warm-started refits of the panel with C or the rank fixed.

An average of effects is given by its weights, (units, periods). The entries where a counterfactual is wanted are
`hidden` from every fit.

bootstrap   outcomes are the fitted ones, with loadings that vary by what is not known of them, plus the residuals of
            randomly drawn units with random signs. Residuals of a unit stay together, so they may be correlated over
            time.
jackknife   every unit is left out once.
placebo     treated units are left out, and control units get their times of treatment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm as normal

from rslm.estimators.panel.counterfactual import Counterfactual
from rslm.estimators.panel.panel import Panel
from rslm.estimators.panel.search import Tell
from rslm.estimators.panel.spectral import TINY
from rslm.estimators.panel.stack import Fitted
from rslm.estimators.panel.two_way import Flags
from rslm.kernels import Stopped
from rslm.runtime.types import Floats

ENOUGH = 1e-4  # relative gap or step of a refit: far below the standard errors
MOST_STEPS = 300
SHARE = 0.9  # of the refits from whose largest error the standard error follows, as of a normal distribution
PART = 20_000_000  # entries of the panels that are in memory at a time
Panels = Callable[[slice], tuple[Floats, Flags, Flags]]
DONORS = 5  # never-treated units from which residuals are drawn; with fewer, all units serve


@dataclass(frozen=True, eq=False)
class Refitted:
    """What the refits have in common."""

    model: Counterfactual
    n_threads: int
    tell: Tell

    @property
    def panel(self) -> Panel:
        return self.model.panel

    @property
    def hidden(self) -> Flags:
        """Entries that no fit sees, because their counterfactual is wanted."""
        return self.panel.treated

    @property
    def observed(self) -> Flags:
        return self.panel.control

    @property
    def adopters(self) -> Flags:
        return np.asarray(self.hidden.any(axis=1))

    def averages(self, count: int, panels: Panels, of: Callable[[int, Floats], Floats]) -> Floats:
        """Averages of the effects of `count` refits, (count, averages).

        `panels` makes the outcomes, observed entries and adopters of some of them, `of` the averages from the effects
        of one.
        """
        size, found = max(PART // self.panel.outcomes.size, 1), []
        for first in range(0, count, size):
            Y, observed, adopters = panels(slice(first, min(first + size, count)))
            left = Y - self._fits(Y, observed, adopters, first, count).predicted
            found += [of(first + k, effects) for k, effects in enumerate(left)]
        return np.array(found)

    def _fits(self, Y: Floats, observed: Flags, adopters: Flags, before: int, count: int) -> Fitted:
        def done(now: int) -> None:
            if self.tell(f"refit {before + now} of {count}"):
                raise Stopped

        options: dict[str, Any] = {"tol": ENOUGH, "most_steps": MOST_STEPS, "n_threads": self.n_threads, "done": done}
        return self.model.refits(Y, observed, adopters, **options)


def bootstrap(given: Refitted, weights: Floats, count: int, rng: np.random.Generator) -> Floats:
    observed, adopters, truths = given.observed, given.adopters[None], given.model.truths(count, rng)
    left = np.where(observed, given.panel.outcomes - given.model.fitted.predicted[0], 0.0)
    never = np.flatnonzero(~given.adopters)
    donors = never if len(never) >= DONORS else np.arange(len(left))
    # A fit leaves residuals that are smaller than the noise.
    left *= given.model.noise / max(np.sqrt(np.mean(left[donors][observed[donors]] ** 2)), TINY)
    filled, chosen = _filled(left, observed, rng), rng.choice(donors, (count, len(left)))
    signs = rng.choice(np.array([-1.0, 1.0]), (count, len(left), 1))

    def panels(part: slice) -> tuple[Floats, Flags, Flags]:
        return truths(part) + filled[chosen[part]] * signs[part], observed[None], adopters

    return _errors(given.averages(count, panels, lambda _, effects: _average(effects, weights)))


def _filled(left: Floats, observed: Flags, rng: np.random.Generator) -> Floats:
    """Residuals with those that are not observed drawn from the same unit."""
    out = left.copy()
    for row, seen in zip(out, observed, strict=True):
        row[~seen] = rng.choice(row[seen], int((~seen).sum()))
    return out


def jackknife(given: Refitted, weights: Floats, count: int, rng: np.random.Generator) -> Floats:
    n = len(given.panel.outcomes)
    if int(given.adopters.sum()) < 2:
        raise ValueError("inference='jackknife' needs two treated units; there is one. Use 'bootstrap' or 'placebo'")

    def panels(part: slice) -> tuple[Floats, Flags, Flags]:
        units = np.arange(part.start, part.stop)
        observed = np.repeat(given.observed[None], len(units), axis=0)
        observed[np.arange(len(units)), units] = False
        return np.repeat(given.panel.outcomes[None], len(units), axis=0), observed, given.adopters[None]

    def without(unit: int, effects: Floats) -> Floats:
        kept = weights.copy()
        kept[:, unit] = 0.0
        return _average(np.where(given.hidden, effects, 0.0), _normalised(kept))

    left = given.averages(n, panels, without)
    m = np.isfinite(left).sum(axis=0)
    return np.asarray(np.sqrt((m - 1) * np.nanvar(left, axis=0)))


def placebo(given: Refitted, weights: Floats, count: int, rng: np.random.Generator) -> Floats:
    treated, control = np.flatnonzero(given.adopters), np.flatnonzero(~given.adopters)
    many = min(len(treated), len(control) // 2)
    if many < 1:
        raise ValueError(
            f"inference='placebo' needs at least two units that are never treated; got {len(control)}. Use 'bootstrap'"
        )
    # Control units, and the treated ones whose times of treatment they get.
    pairs = [(rng.permutation(control)[:many], rng.permutation(treated)[:many]) for _ in range(count)]

    def panels(part: slice) -> tuple[Floats, Flags, Flags]:
        chosen = pairs[part]
        observed = np.repeat(given.observed[None], len(chosen), axis=0)
        observed[:, treated] = False
        adopters = np.zeros(observed.shape[:2], dtype=np.bool_)
        for seen, adopt, (to, of) in zip(observed, adopters, chosen, strict=True):
            seen[to] &= ~given.hidden[of]
            adopt[to] = True
        return np.repeat(given.panel.outcomes[None], len(chosen), axis=0), observed, adopters

    def moved(k: int, effects: Floats) -> Floats:
        to, of = pairs[k]
        return _average(effects[to], _normalised(weights[:, of] * given.observed[to]))

    return _errors(given.averages(count, panels, moved))


def _errors(drawn: Floats) -> Floats:
    """Standard errors from averages of effects that are 0: by a quantile, since a few refits may be far off."""
    return np.asarray(np.nanquantile(np.abs(drawn), SHARE, axis=0) / normal.ppf(0.5 + 0.5 * SHARE))


METHODS = {"bootstrap": bootstrap, "jackknife": jackknife, "placebo": placebo}


def _average(effects: Floats, weights: Floats) -> Floats:
    """The averages of a panel's effects, one for each set of weights."""
    return np.asarray(weights.reshape(len(weights), -1) @ np.nan_to_num(effects).ravel())


def _normalised(weights: Floats) -> Floats:
    """Weights that sum to 1; NaN where none is left."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(weights / weights.sum(axis=(1, 2), keepdims=True))
