"""Fits of a series at several orders, and the order that suits it.

If C is not given, it follows from the noise σ: the trace norm shifts the signal by ‖W‖_*/2C · P*(P Qᵀ), with the
singular vectors P and Q of W, and C is chosen so that this is a small part of the error σ√2k due to noise at order k.
Other losses than the square loss have a weight that gives them the same curvature for noise of this size.

Fits use all samples. Orders are compared by sums of squares, so with a robust loss spikes are left out of these.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from rslm.estimators.series.exponentials import fit_modes, left_space, poles_of
from rslm.estimators.series.orders import criterion, is_exact, too_steep
from rslm.estimators.series.quick_start import QuickStart
from rslm.losses import Loss
from rslm.measurements import Samples
from rslm.problem import Problem
from rslm.runtime.types import Floats
from rslm.solvers import Outcome, Result, solve
from rslm.structures import Hankel

PATH = ("rank", "C", "criterion")  # what is known of every order that was fitted
PULL = 0.05  # error due to the trace norm, relative to that due to noise
LARGEST_C = 1e10
NEIGHBOURS = 2  # orders that are tried on both sides of the best one so far: a pole and its conjugate come in pairs
LEAST_TIME = 1e-3  # seconds for an order when no time is left, because max_time must be positive
LEAST_COLUMN = 1e-6  # smallest singular value in the start, relative to the largest


class OrderSearch:
    """Fits Y, of shape (channels, n), at the requested orders, each once, until the deadline or an interrupt."""

    def __init__(
        self,
        Y: Floats,
        structure: Hankel,
        first: QuickStart,
        C: float | None,
        noise: float,
        loss: Loss,
        deadline: float,
        **options: Any,
    ) -> None:
        self.Y, self.structure, self.C, self.loss = Y, structure, C, loss
        self.seen, self.pilot, self.noise = first.seen, first.pilot, noise
        self.deadline = deadline
        self.options = options
        self.samples = int((~np.isnan(self.seen)).sum())
        self.results: dict[int, Result] = {}
        self._squares: dict[int, float] = {}
        self.spent = 0  # iterations
        self._interrupted = False

    def fit(self, order: int) -> Result:
        if order not in self.results:
            h = self.pilot.signals[order].ravel()
            P, s = left_space(self.structure, h, order)
            C = self.C or self._from_noise(h, P, s)
            problem = Problem(self.loss, Samples(self.Y), self.structure, C=C)
            start = P * np.sqrt(np.maximum(s, LEAST_COLUMN * max(s[0], np.finfo(float).tiny)))
            left = max(self.deadline - time.perf_counter(), LEAST_TIME)
            limit = None if math.isinf(left) else left
            self.results[order] = solve(problem, order, start=start, max_time=limit, **self.options)
            self.spent += self.results[order].n_iter
        return self.results[order]

    @property
    def stopped(self) -> Outcome | None:
        """Why the search ended before all orders were tried; None if it did not."""
        outcomes = {result.outcome for result in self.results.values()}
        return next((o for o in (Outcome.INTERRUPTED, Outcome.TIME) if self._interrupted or o in outcomes), None)

    def _from_noise(self, h: Floats, P: Floats, s: Floats) -> float:
        least = max(np.finfo(float).eps * s[0], np.finfo(float).tiny)  # smaller singular values are rounding errors
        Q = self.structure.transposed_times(h, P) / np.maximum(s, least)
        pull = float(s.sum()) * float(np.linalg.norm(self.structure.adjoint(P, Q)))
        allowed = 2.0 * PULL * self.noise * math.sqrt(2.0 * len(s))
        return min(max(pull / allowed, 1.0), LARGEST_C) if allowed > 0 else LARGEST_C

    def squares(self, order: int) -> float:
        """The sum of squared residuals of the exponentials of an order; infinite if they fit only the last few samples.

        Residuals of the signal itself would be wrong, because it has low rank only approximately: for too large an
        order it may be a modulation of fewer exponentials, which fits better than any sum of exponentials.
        """
        if order == 0:
            return float(self.pilot.squares[0])
        if order not in self._squares:
            if self.fit(order).empty:
                return math.inf
            w = self.fit(order).parameters
            assert w is not None
            poles = poles_of(left_space(self.structure, w, order)[0])
            left = float(np.nansum((self.seen - fit_modes(poles, self.seen)[1]) ** 2))
            steep = too_steep(poles, self.structure.samples) and not is_exact(left, float(self.pilot.squares[0]))
            self._squares[order] = math.inf if steep else left
        return self._squares[order]

    def criterion(self, order: int) -> float:
        channels = len(self.Y)
        return criterion(self.squares(order), order, self.samples, channels, float(self.pilot.squares[0]))

    def path(self, weight: float) -> dict[str, Floats]:
        """Order, C in units of `weight`, and criterion of everything that was fitted."""
        tried = [k for k in sorted(self.results) if not self.results[k].empty]
        rows = [(k, weight * self.results[k].problem.C, self.criterion(k)) for k in tried]
        return dict(zip(PATH, np.array(rows, dtype=np.float64).reshape(-1, len(PATH)).T.copy(), strict=True))

    def best_so_far(self, guess: int) -> int:
        """The best of the orders whose criterion is known; `guess` if there is none."""
        return min(self._squares, key=self.criterion, default=guess)

    def only(self, order: int) -> int:
        """Fit this order and return it."""
        self.fit(order)
        return order

    def climb(self, order: int, largest: int) -> int:
        """A local optimum, found from a first guess `order`; the best order so far if the search is stopped."""
        best = order
        try:
            while True:
                near = range(max(order - NEIGHBOURS, 0), min(order + NEIGHBOURS, largest) + 1)
                for other in sorted(near, key=lambda k: abs(k - order)):
                    if self.stopped:
                        return best
                    if self.criterion(other) < self.criterion(best):
                        best = other
                if best == order and math.isfinite(self.criterion(order)):
                    return order
                order = best = best if best != order else order - 1  # all neighbours are too steep; order 0 never is
        except KeyboardInterrupt:
            if best not in self.results:
                raise
            self._interrupted = True
            return best
