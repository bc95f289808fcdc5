"""Draws as they come from a chain, in the units of the data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rslm.estimators.completion.averaging.draws import Draws
from rslm.estimators.completion.layout import Layout
from rslm.location import Effects
from rslm.runtime.types import Floats
from rslm.sampling import State


class Collected:
    """Room for n draws, of which some have come."""

    def __init__(self, layout: Layout, n: int, centre: float, scale: float, heavy: float) -> None:
        """The chain has the values, in units of the features if they have units, minus `centre`, over `scale`.

        Its noise is that of entries whose weight has the root `heavy`.
        """
        self._layout, self._n, self._centre, self._scale, self._heavy = layout, n, centre, scale, heavy
        self._factors: list[Floats] = []  # of the samples and of the features, once their widths are known
        self._effects = [np.empty((n, count)) for count in layout.data.shape]
        self._intercepts, self._noise = np.empty(n), np.empty(n)
        self._priors: list[Any] = []

    def __len__(self) -> int:
        return len(self._priors)

    def add(self, state: State) -> None:
        """Keep a state of a chain whose rows are the features, and whose columns are the samples."""
        s, state = len(self), state.scaled(self._scale)
        assert state.column_prior is not None
        samples, features = state.columns, state.rows
        of_samples, of_features = (
            np.zeros(len(side.factors)) if side.effects is None else side.effects for side in (samples, features)
        )
        means = float(of_samples.mean()), float(of_features.mean())
        effects = Effects(self._centre + sum(means), of_samples - means[0], of_features - means[1], np.zeros(0))
        found = self._layout._factors(samples.factors, features.factors, effects)
        blocks = found["row_factors_"], found["col_factors_"]
        if not self._factors:
            self._factors = [np.empty((len(block), self._n * block.shape[1])) for block in blocks]
        for stacked, block in zip(self._factors, blocks, strict=True):
            width = block.shape[1]
            stacked[:, s * width : (s + 1) * width] = block
        self._effects[0][s] = found["row_effects_"]
        self._effects[1][s] = found["col_effects_"] + found["intercept_"]
        self._intercepts[s] = found["intercept_"]
        self._noise[s] = state.noise * self._heavy
        self._priors.append((state.column_prior.mean, state.column_prior.precision))

    def model(self) -> dict[str, Any]:
        """The attributes of the mean of the draws so far."""
        n = len(self)
        rows, cols = (stacked[:, : n * (stacked.shape[1] // self._n)] / math.sqrt(n) for stacked in self._factors)
        means, precisions = (np.array(part) for part in zip(*self._priors, strict=True))
        draws = Draws(self._effects[0][:n], self._effects[1][:n], self._noise[:n], means, precisions)
        intercept = float(self._intercepts[:n].mean())
        located = {"row_effects_": draws.row_effects.mean(axis=0), "intercept_": intercept}
        located["col_effects_"] = draws.col_effects.mean(axis=0) - intercept
        return {"row_factors_": rows, "col_factors_": cols, "_draws": draws} | located
