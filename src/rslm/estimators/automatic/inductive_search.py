"""The search over settings where rows and columns have features: the weight of the features is one more of them.

Held-out entries are like those that will be predicted: where rows have no entry at all, whole rows are held out too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from rslm.data import ObservedMatrix
from rslm.estimators.automatic.folds import Fold, folds_of
from rslm.estimators.automatic.search import WORTH, Search
from rslm.estimators.automatic.settings import Setting
from rslm.estimators.completion.inductive_layout import InductiveLayout
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.ridges import Ridges
from rslm.evaluation.effects import effects_alone, residual_duals
from rslm.problem import Problem
from rslm.runtime.types import Floats

USUAL_WEIGHT = 0.2  # of the features relative to a constant
EFFECTS = 2  # the rank of the effects of rows and columns, which are a part of W
TWICE = 2.0  # factor of the weight
LEAST, MOST = 0.0125, 3.2  # weights
WARM_FOLDS = 3  # at most
MOST_COLD, COLD_FOLDS = 0.2, 2  # share of the rows, or columns, that are held out whole, and how often others are


@dataclass(frozen=True)
class InductiveSetting(Setting):
    """A setting with the weight of the features."""

    feature_weight: float = USUAL_WEIGHT

    def applied(self, layout: Layout, noise: Floats | None) -> Layout:
        return replace(cast(InductiveLayout, super().applied(layout, noise)), feature_weight=self.feature_weight)

    def numbers(self) -> dict[str, float]:
        first = {"rank": float(self.rank), "C": self.C, "weighting": self.weighting}
        return first | {"feature_weight": self.feature_weight}


class InductiveSearch(Search):
    """The search for a layout with features."""

    def __init__(
        self, template: InductiveLayout, folds: list[Fold], *, ridges: Ridges, weighs: bool, **options: Any
    ) -> None:
        """`ridges` are those of effects alone, and `weighs` says whether a weight of the features is searched."""
        self.ridges, self.weighs, self.given_weight = ridges, weighs, template.feature_weight
        self.first_rank = 1 + EFFECTS if template.mean else 1
        super().__init__(template, folds, **options)

    def of_effects(self) -> float:
        """The error of mean, row effects and column effects, without features."""
        total = []
        for fold in self.folds:
            layout = self._layout_of_effects(fold)
            problem = layout.problem()
            U, V = (np.zeros((side, 1)) for side in problem.shape)
            total.append(self._error(layout, fold, U, V, effects_alone(problem, self.threads)))
        return self._mean(total)

    def _may_be_alone(self) -> bool:
        return cast(InductiveLayout, self.template).mean

    def _layout_of_effects(self, fold: Fold) -> Layout:
        """The entries without features."""
        return Layout(fold.train, self.loss, 1.0, 0.0, ridges=self.ridges)

    def _unexplained(self) -> tuple[Problem, Floats]:
        """What effects leave of the entries.

        Features that all rows share explain much at a small C, where the search would end: it begins where rows and
        columns have more of their own than effects.
        """
        if not cast(InductiveLayout, self.template).completion:
            return super()._unexplained()
        problem = self._layout_of_effects(self.folds[0]).problem()
        return problem, residual_duals(problem, effects_alone(problem, self.threads), self.threads)

    def _setting(self, C: float, rank: int, weighting: float) -> Setting:
        return InductiveSetting(C, rank, weighting, feature_weight=self.given_weight)

    def _refined(self, best: Setting) -> Setting:
        """Twice or half the weight of the features, as long as the error falls."""
        if not self.weighs:
            return best
        best = cast(InductiveSetting, best)
        for factor in (TWICE, 1.0 / TWICE):
            moved = False
            while LEAST <= best.feature_weight * factor <= MOST:
                other = replace(best, feature_weight=best.feature_weight * factor)
                if not self.errors[self._tried(other)] < (1.0 - WORTH) * self.errors[best]:
                    break
                best, moved = other, True
            if moved:
                break
        return best

    def _certifiable(self, best: Setting) -> Setting:
        """The given setting: with features, the rank of the convex optimum is high, and its fits take long."""
        return best


def inductive_folds(data: ObservedMatrix, described: tuple[bool, bool], rng: np.random.Generator) -> list[Fold]:
    """Folds of single entries and, for sides with features that have empty rows or columns, of whole ones."""
    folds = folds_of(data, rng)[:WARM_FOLDS]
    places = data.rows_of_entries(), data.index
    for at, counts, has in zip(places, (data.row_counts(), data.col_counts()), described, strict=True):
        filled = np.flatnonzero(counts)
        share = min(1.0 - len(filled) / len(counts), MOST_COLD)
        if not has or share <= 0.0 or len(filled) < 2:
            continue
        order, count = rng.permutation(filled), max(round(share * len(filled)), 1)
        for k in range(min(COLD_FOLDS, len(filled) // count)):
            held = np.isin(at, order[k * count : (k + 1) * count])
            folds.append(Fold(data.subset(~held), data.subset(held)))
    return folds
