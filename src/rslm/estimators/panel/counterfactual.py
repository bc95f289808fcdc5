"""The model of the counterfactual: the certified fit, or its refit by factors with random loadings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from rslm.estimators.panel.factor_model import fit_factors, loadings_around
from rslm.estimators.panel.panel import NEVER, Panel
from rslm.estimators.panel.refit import Refit, degrees, noise, refit
from rslm.estimators.panel.spectral import TINY, Shrunk
from rslm.estimators.panel.stack import Fitted, fit_stack
from rslm.estimators.panel.two_way import Flags
from rslm.runtime.types import Floats

NEGLIGIBLE = 1e-7  # singular values this small relative to the largest one are 0
Truths = Callable[[slice], Floats]


class Counterfactual(Protocol):
    """What would have been without treatment, from the entries that a fit may see."""

    panel: Panel
    fitted: Fitted
    rank: int
    noise: float  #: the standard deviation of outcomes around the counterfactual
    degrees: float  #: of freedom of the fit

    def refits(self, Y: Floats, observed: Flags, adopters: Flags, **options: Any) -> Fitted:
        """Fits of the same model to a stack of panels, with C or the rank fixed."""
        ...

    def truths(self, count: int, rng: np.random.Generator) -> Truths:
        """Counterfactuals of this many panels that might lie behind the data, made for some of them at a time."""
        ...

    def without(self, held: Flags) -> Counterfactual:
        """The same model, with its rank found again, from a panel where these entries count as treated."""
        ...


class ByTraceNorm:
    """The certified fit itself."""

    def __init__(self, panel: Panel, fitted: Fitted, C: float, tol: float) -> None:
        self.panel, self.fitted, self._C, self._tol = panel, fitted, C, tol
        values = np.linalg.svd(fitted.W[0], compute_uv=False)
        self.rank = int((values > NEGLIGIBLE * max(values[0], TINY)).sum())
        effective = _effective_rank(values, C)
        self.degrees = degrees(panel, effective)
        self.noise = noise(panel, np.where(panel.control, panel.outcomes - fitted.predicted[0], 0.0), effective)

    def refits(self, Y: Floats, observed: Flags, adopters: Flags, **options: Any) -> Fitted:
        rule, known = Shrunk(np.full(len(Y), self._C)), self.panel.covariates
        return fit_stack(Y, observed, rule, self.fitted.W, covariates=known, **options)

    def truths(self, count: int, rng: np.random.Generator) -> Truths:
        return lambda part: self.fitted.predicted

    def without(self, held: Flags) -> ByTraceNorm:
        panel = replace(self.panel, treated=self.panel.treated | held)
        adopters = np.asarray(panel.treated.any(axis=1))[None]
        shrunk = self.refits(panel.outcomes[None], panel.control[None], adopters, tol=self._tol)
        return ByTraceNorm(panel, shrunk, self._C, self._tol)


class ByFactors:
    """The refit, which starts from the certified fit."""

    def __init__(self, shrunk: ByTraceNorm, rank: int | None) -> None:
        self.panel, self._shrunk, self._given = shrunk.panel, shrunk, rank
        self._refit: Refit = refit(self.panel, shrunk.fitted.W[0], rank)
        found = self._refit.factored
        self.rank, self.fitted, self.noise = self._refit.rank, found.fitted, float(found.noise[0])
        self.degrees = degrees(self.panel, self.rank)

    def refits(self, Y: Floats, observed: Flags, adopters: Flags, **options: Any) -> Fitted:
        known = self.panel.covariates
        return fit_factors(Y, observed, adopters, self.rank, self.fitted.W, covariates=known, **options).fitted

    def truths(self, count: int, rng: np.random.Generator) -> Truths:
        """With loadings drawn from what is known of them: their expectations vary less than loadings do."""
        found = self._refit.factored
        moved = loadings_around(found.spread[0], self.panel.first != NEVER, count, rng)
        return lambda part: found.fitted.predicted + np.matmul(moved[part], found.factors[0].T)

    def without(self, held: Flags) -> ByFactors:
        return ByFactors(self._shrunk.without(held), self._given)


def _effective_rank(values: Floats, C: float) -> float:
    """The number of factors, each counted by the share of its size that the trace norm leaves."""
    level = 0.5 * float(values.sum()) / C
    return float((values / np.maximum(values + level, TINY)).sum())
