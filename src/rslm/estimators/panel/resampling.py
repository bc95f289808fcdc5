"""Standard errors of averages of effects, by many warm-started refits of the panel with C or the rank fixed.

An average of effects is given by its weights, (units, periods). The entries where a counterfactual is wanted are
`hidden` from every fit.

bootstrap   outcomes are the fitted ones plus the residuals of randomly drawn units with random signs. Residuals of a
            unit stay together, so they may be correlated over time.
jackknife   every unit is left out once.
placebo     treated units are left out, and control units get their times of treatment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm as normal

from rslm.estimators.panel.panel import Panel
from rslm.estimators.panel.spectral import Spectral
from rslm.estimators.panel.stack import Fitted, fit_stack
from rslm.estimators.panel.two_way import Flags
from rslm.runtime.log import logger
from rslm.runtime.types import Floats, Indices64

ENOUGH = 1e-4  # relative gap or step of a refit: far below the standard errors
MOST_STEPS = 300
SHARE = 0.9  # of the refits from whose largest error the standard error follows, as of a normal distribution
DONORS = 5  # never-treated units from which residuals are drawn; with fewer, all units serve


@dataclass(frozen=True, eq=False)
class Refitted:
    """What the refits have in common."""

    panel: Panel
    hidden: Flags  #: entries that no fit sees, because their counterfactual is wanted
    fitted: Fitted
    rule: Callable[[int], Spectral]  #: for a number of panels
    degrees: float  #: of freedom of the fit
    n_threads: int

    @property
    def observed(self) -> Flags:
        return np.asarray(~np.isnan(self.panel.outcomes) & ~self.hidden)

    def fits(self, Y: Floats, observed: Flags) -> Fitted:
        many = len(Y)

        def done(count: int) -> None:
            logger.info(f"refit {count} of {many}")

        options: dict[str, Any] = {"tol": ENOUGH, "most_steps": MOST_STEPS, "n_threads": self.n_threads, "done": done}
        options["covariates"] = self.panel.covariates
        return fit_stack(Y, observed, self.rule(many), self.fitted.W, **options)


def bootstrap(given: Refitted, weights: Floats, count: int, rng: np.random.Generator) -> Floats:
    predicted, observed = given.fitted.predicted[0], given.observed
    left = np.where(observed, given.panel.outcomes - predicted, 0.0)
    entries = int(observed.sum())
    left *= np.sqrt(entries / max(entries - given.degrees, 1.0))
    never = np.flatnonzero(~given.hidden.any(axis=1))
    donors = never if len(never) >= DONORS else np.arange(len(left))
    rows = _filled(left, observed, rng)[rng.choice(donors, (count, len(left)))]
    signs = rng.choice(np.array([-1.0, 1.0]), (count, len(left), 1))
    Y = predicted + rows * signs
    drawn = _averages(Y - given.fits(Y, observed[None]).predicted, weights)
    return _errors(drawn)


def _filled(left: Floats, observed: Flags, rng: np.random.Generator) -> Floats:
    """Residuals with those that are not observed drawn from the same unit."""
    out = left.copy()
    for row, seen in zip(out, observed, strict=True):
        row[~seen] = rng.choice(row[seen], int((~seen).sum()))
    return out


def jackknife(given: Refitted, weights: Floats, count: int, rng: np.random.Generator) -> Floats:
    n = len(given.panel.outcomes)
    if int(given.hidden.any(axis=1).sum()) < 2:
        raise ValueError("inference='jackknife' needs two treated units; there is one. Use 'bootstrap' or 'placebo'")
    observed = np.repeat(given.observed[None], n, axis=0)
    observed[np.arange(n), np.arange(n)] = False
    Y = np.repeat(given.panel.outcomes[None], n, axis=0)
    effects = np.where(given.hidden, Y - given.fits(Y, observed).predicted, 0.0)
    kept = np.repeat(weights[None], n, axis=0)
    kept[np.arange(n), :, np.arange(n)] = 0.0
    left = np.array([_averages(effect[None], _normalised(w))[0] for effect, w in zip(effects, kept, strict=True)])
    m = np.isfinite(left).sum(axis=0)
    return np.asarray(np.sqrt((m - 1) * np.nanvar(left, axis=0)))


def placebo(given: Refitted, weights: Floats, count: int, rng: np.random.Generator) -> Floats:
    treated = np.flatnonzero(given.hidden.any(axis=1))
    control = np.flatnonzero(~given.hidden.any(axis=1))
    many = min(len(treated), len(control) // 2)
    if many < 1:
        raise ValueError(
            f"inference='placebo' needs at least two units that are never treated; got {len(control)}. Use 'bootstrap'"
        )
    observed, moved = _pretended(given, weights, treated, control, many, count, rng)
    Y = np.repeat(given.panel.outcomes[None], count, axis=0)
    effects = np.nan_to_num(Y - given.fits(Y, observed).predicted)
    drawn = np.array([_averages(effect[None], _normalised(w))[0] for effect, w in zip(effects, moved, strict=True)])
    return _errors(drawn)


def _errors(drawn: Floats) -> Floats:
    """Standard errors from averages of effects that are 0: by a quantile, since a few refits may be far off."""
    return np.asarray(np.nanquantile(np.abs(drawn), SHARE, axis=0) / normal.ppf(0.5 + 0.5 * SHARE))


def _pretended(
    given: Refitted,
    weights: Floats,
    treated: Indices64,
    control: Indices64,
    many: int,
    count: int,
    rng: np.random.Generator,
) -> tuple[Flags, Floats]:
    """Observed entries and weights where control units have the times of treatment of treated ones."""
    observed = np.repeat(given.observed[None], count, axis=0)
    observed[:, treated] = False
    moved = np.zeros((count, *weights.shape))
    for k in range(count):
        to, of = rng.permutation(control)[:many], rng.permutation(treated)[:many]
        seen = given.observed[to]
        observed[k, to] = seen & ~given.hidden[of]
        moved[k][:, to] = weights[:, of] * seen
    return observed, moved


METHODS = {"bootstrap": bootstrap, "jackknife": jackknife, "placebo": placebo}


def _averages(effects: Floats, weights: Floats) -> Floats:
    """The averages of each panel's effects, (panels, averages)."""
    known = np.nan_to_num(effects).reshape(len(effects), -1)
    return np.asarray(known @ weights.reshape(len(weights), -1).T)


def _normalised(weights: Floats) -> Floats:
    """Weights that sum to 1; NaN where none is left."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(weights / weights.sum(axis=(1, 2), keepdims=True))
