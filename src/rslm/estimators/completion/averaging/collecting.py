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
    """The draws so far."""

    def __init__(self, layout: Layout, centre: float, scale: float, heavy: float) -> None:
        """The chain has the values, in units of the features if they have units, minus `centre`, over `scale`.

        Its noise is that of entries whose weight has the root `heavy`.
        """
        self._layout, self._centre, self._scale, self._heavy = layout, centre, scale, heavy
        self._models: list[dict[str, Any]] = []  # factors, effects and intercept of every draw
        self._rest: list[tuple[float, Floats, Floats]] = []  # its noise, and mean and precision of the samples' prior

    def __len__(self) -> int:
        return len(self._models)

    def add(self, state: State) -> None:
        """Keep a state of a chain whose rows are the features, and whose columns are the samples."""
        state = state.scaled(self._scale)
        samples, features, prior = state.columns, state.rows, state.column_prior
        assert prior is not None
        of_samples, of_features = (
            np.zeros(len(side.factors)) if side.effects is None else side.effects for side in (samples, features)
        )
        means = float(of_samples.mean()), float(of_features.mean())
        effects = Effects(self._centre + sum(means), of_samples - means[0], of_features - means[1], np.zeros(0))
        self._models.append(self._layout._factors(samples.factors, features.factors, effects))
        self._rest.append((state.noise * self._heavy, prior.mean, prior.precision))

    def model(self) -> dict[str, Any]:
        """The attributes of the mean of the draws so far."""

        def all_of(name: str) -> list[Any]:
            return [model[name] for model in self._models]

        rows, cols = (np.hstack(all_of(name)) for name in ("row_factors_", "col_factors_"))
        for stacked in (rows, cols):
            stacked /= math.sqrt(len(self))
        intercepts = np.array(all_of("intercept_"))
        noise, means, precisions = (np.array(part) for part in zip(*self._rest, strict=True))
        row_effects, col_effects = np.array(all_of("row_effects_")), np.array(all_of("col_effects_"))
        located: dict[str, Any] = {"intercept_": float(intercepts.mean())}
        located |= {"row_effects_": row_effects.mean(axis=0), "col_effects_": col_effects.mean(axis=0)}
        draws = Draws(row_effects, col_effects + intercepts[:, None], noise, means, precisions)
        return {"row_factors_": rows, "col_factors_": cols, "_draws": draws} | located
