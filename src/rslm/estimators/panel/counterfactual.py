"""The model of the counterfactual: the certified fit, or its refit without shrinkage, with C or the rank fixed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rslm.estimators.panel.panel import Panel
from rslm.estimators.panel.refit import degrees, most_rank, refit
from rslm.estimators.panel.spectral import TINY, Limited, Shrunk, Spectral
from rslm.estimators.panel.stack import Fitted, fit_stack
from rslm.estimators.panel.two_way import Flags
from rslm.runtime.types import Floats

NEGLIGIBLE = 1e-7  # singular values this small relative to the largest one are 0


class Counterfactual:
    """What would have been without treatment, from the entries that a fit may see."""

    def __init__(self, panel: Panel, shrunk: Fitted, C: float, debias: bool, rank: int | None, tol: float) -> None:
        self.panel, self._shrunk, self._C, self._debias, self._given, self._tol = panel, shrunk, C, debias, rank, tol
        self.limit = most_rank(panel, panel.control)
        if debias:
            found = refit(panel, panel.control, shrunk.W[0], rank)
            self.rank, self.effective_rank, self.fitted = found.rank, float(found.rank), found.fitted
        else:
            values = np.linalg.svd(shrunk.W[0], compute_uv=False)
            self.rank = int((values > NEGLIGIBLE * max(values[0], TINY)).sum())
            self.effective_rank, self.fitted = _shrunk_rank(values, C), shrunk

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the fit."""
        return degrees(self.panel, self.effective_rank)

    def rule(self, count: int) -> Spectral:
        """The same model for `count` panels."""
        return Limited(self.rank) if self._debias else Shrunk(np.full(count, self._C))

    def without(self, held: Flags) -> Counterfactual:
        """The same model, with its rank found again, from a panel where these entries count as treated."""
        panel = replace(self.panel, treated=self.panel.treated | held)
        rule, start, known = Shrunk(np.array([self._C])), self._shrunk.W, panel.covariates
        shrunk = fit_stack(panel.outcomes[None], panel.control[None], rule, start, covariates=known, tol=self._tol)
        return Counterfactual(panel, shrunk, self._C, self._debias, self._given, self._tol)


def _shrunk_rank(values: Floats, C: float) -> float:
    """The number of factors, each counted by the share of its size that the trace norm leaves."""
    level = 0.5 * float(values.sum()) / C
    return float((values / np.maximum(values + level, TINY)).sum())
