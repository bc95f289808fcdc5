"""A chain that starts at the answer of a solver."""

from __future__ import annotations

import math

import numpy as np

from rslm.estimators.completion.averaging.collecting import Collected
from rslm.estimators.completion.layout import Layout
from rslm.kernels import Columns
from rslm.sampling import Chain, Coefficients, Entries, State, balanced
from rslm.solvers import Result

BURN_IN = 5  # draws that are left out, as they depend on the start; found by validation on MovieLens


class Drawing:
    """Draws of the posterior of a completed matrix."""

    def __init__(self, layout: Layout, result: Result, rng: np.random.Generator, threads: int) -> None:
        data, ridges = layout._scaled(), layout.ridges
        located = layout._located(result.effects).scaled(1.0 / layout.scale)
        y = np.asarray(data.values, dtype=np.float64) - located.mean
        size = math.sqrt(float(np.mean(y**2))) or 1.0
        weight, heavy = data.weights, 1.0
        if weight is not None:  # relative to their mean, so that those of any size give the same draws
            heavy = float(np.mean(weight, dtype=np.float64))
            weight = np.asarray(weight / heavy, dtype=np.float64)
        entries = Entries(Columns(data.indptr, data.index, data.shape[1]), y / size, weight)
        features, samples = balanced(*layout.factors_of(result.U, result.V / size)[::-1], rng)
        start = State(
            Coefficients(features, None if ridges is None or ridges.columns is None else located.columns / size),
            Coefficients(samples, None if ridges is None or ridges.rows is None else located.rows / size),
            1.0,
        )
        self._chain = Chain(entries, start, rng, threads)
        self._burnt = 0
        self.collected = Collected(layout, located.mean * layout.scale, size * layout.scale, math.sqrt(heavy))

    @property
    def noise(self) -> float:
        """The size of the noise of the last draw, relative to that of the values."""
        return self._chain.state.noise

    def draw(self) -> None:
        """Add one draw to those collected; the first one only after the burn-in."""
        while self._burnt < BURN_IN:
            self._chain.sweep()
            self._burnt += 1
        self.collected.add(self._chain.sweep())
