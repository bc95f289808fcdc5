"""Intervals from the errors of held-out observations: split conformal prediction.

With scores |y − ŷ|/s of n held-out observations, where s is the size that an error is expected to have, the interval
ŷ ± s·q covers a new observation with a probability of at least `coverage`, if q is the ⌈coverage·(n + 1)⌉-th smallest
score, whatever the model: the new observation only needs to be exchangeable with the held-out ones.

Where new observations come from another distribution, scores are weighted by how much more often their like occurs
among the new ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rslm.evaluate.errors import filled, named_entries
from rslm.runtime.types import Floats

#: So that an interval contains the observation that its factor comes from, in spite of rounding errors.
OWN = 1.0 + 1e-12


@dataclass(frozen=True)
class Calibration:
    """The scores of held-out observations, sorted, and their weights, relative to those of new observations."""

    scores: Floats
    weights: Floats | None = None  #: None if all are equal

    @classmethod
    def of(cls, scores: Floats, weights: Floats | None = None) -> Calibration:
        """From scores in any order."""
        order = np.argsort(scores, kind="stable")
        return cls(np.asarray(scores)[order], None if weights is None else np.asarray(weights)[order])

    def __len__(self) -> int:
        return len(self.scores)

    def factor(self, coverage: float) -> float:
        """By which the expected size of an error is multiplied; an error if there are too few scores.

        Parameters
        ----------
        coverage : float
            The probability that an interval covers, between 0 and 1.
        """
        place = math.ceil(exact(check_coverage(coverage) * (len(self) + 1)))
        if place > len(self):
            raise ValueError(
                f"coverage={coverage:g} needs at least {least_scores(coverage)} held-out observations; there are "
                f"{len(self)}. Lower the coverage, or hold out more"
            )
        return float(self.scores[place - 1]) * OWN

    def weighted_factors(self, coverage: float, new: Floats) -> Floats:
        """One factor for every new observation; infinite where its weight is too large to say.

        Parameters
        ----------
        coverage : float
            As in `factor`.
        new : array
            The weights of the new observations.
        """
        check_coverage(coverage)
        weights = np.ones(len(self)) if self.weights is None else self.weights
        up_to = np.cumsum(weights)
        place = np.searchsorted(up_to, exact(coverage * (up_to[-1] + np.asarray(new))))
        return np.asarray(np.append(self.scores, np.inf)[place]) * OWN


def coverage_and_width(model: Any, test: Any, coverage: float = 0.9) -> tuple[float, float]:
    """The fraction of held-out entries that the intervals of a model cover, and the mean width of these intervals.

    Parameters
    ----------
    model : fitted MatrixCompletion or InductiveCompletion
    test : ObservedMatrix, or any other matrix that `fit` accepts
        Entries that the model was not fitted to, of its rows and columns, by ids as in `rmse`.
    coverage : float, default=0.9
    """
    test = filled(test, "test")
    lower, upper = model.predict_interval(*named_entries(model, test), coverage)
    inside = (lower <= test.values) & (test.values <= upper)
    return float(np.average(inside, weights=test.weights)), float(np.average(upper - lower, weights=test.weights))


def check_coverage(coverage: Any) -> float:
    """The probability that an interval covers, as a float; an error unless it is between 0 and 1."""
    try:
        number = float(coverage)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(coverage, bool) or not 0.0 < number < 1.0:
        raise ValueError(f"coverage must be a number between 0 and 1, such as 0.9; got {coverage!r}")
    return number


def least_scores(coverage: float) -> int:
    """How many held-out observations a coverage needs: coverage·(n + 1) ≤ n."""
    n = max(int(coverage / (1.0 - coverage)) - 1, 1)  # 1 − coverage has lost digits
    while math.ceil(exact(coverage * (n + 1))) > n:
        n += 1
    return n


def exact(number: Any) -> Any:
    """Without the rounding errors of a product such as 0.9·10, so that it is not rounded up to the next integer."""
    return number * (1.0 - 1e-12)
