"""Gibbs sampling of factors and effects, of their priors and of the noise, given entries of a matrix.

An entry is y = uᵢ·vⱼ + bᵢ + cⱼ + noise / √weight. The coefficients [uᵢ, bᵢ] of all rows are normal with one mean and
one precision matrix, and so are [vⱼ, cⱼ] of all columns. Means, precisions and the size of the noise are drawn as well,
from weak distributions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rslm.kernels import Factors
from rslm.runtime.types import Floats
from rslm.sampling.coefficients import Coefficients
from rslm.sampling.conditional import Conditional, Entries
from rslm.sampling.prior import Hyperprior, NormalPrior

COUNT = 2.0  # entries that the distribution of the noise counts for before there are any
LEAST = 1e-3  # size of the noise there, relative to that of the values


@dataclass(frozen=True)
class State:
    """A point of a chain."""

    rows: Coefficients
    columns: Coefficients
    noise: float  #: standard deviation of an entry of weight 1
    column_prior: NormalPrior | None = None  #: that the columns were drawn from

    def joined(self) -> tuple[Floats, Floats]:
        """Two matrices whose product is the prediction."""
        X, offset = self.rows.design(True)
        effects = self.columns.effects
        effects = np.zeros(len(self.columns.factors)) if effects is None else effects
        right = np.column_stack([self.columns.factors, effects, np.ones(len(effects))])
        return np.column_stack([X, offset]), right

    def scaled(self, scale: float) -> State:
        """The state for values `scale` times as large; the factors of the rows stay."""
        prior = self.column_prior
        if prior is not None:
            prior = NormalPrior(prior.mean * scale, prior.precision / scale**2)
        columns = self.columns.scaled(scale, scale)
        return State(self.rows.scaled(1.0, scale), columns, self.noise * scale, prior)


class Chain:
    """States drawn one after another. They depend on the generator, and not on the number of threads.

    The values should have a mean square of about 1.
    """

    def __init__(self, entries: Entries, start: State, rng: np.random.Generator, threads: int) -> None:
        self.state = start
        self._rng, self._threads = rng, threads
        self._entries, self._by_rows = entries, entries.by_rows()
        self._used: list[Factors | None] = [None, None]  # memory of the rows' factors, and of the columns'

    def sweep(self) -> State:
        """Draw everything once: the noise, the rows given the columns, and the columns given the rows."""
        now = self.state
        noise = self._noise(now)
        rows, _ = self._drawn(0, now.rows, now.columns, noise)
        columns, prior = self._drawn(1, now.columns, rows, noise)
        self.state = State(rows, columns, noise, prior)
        return self.state

    def _drawn(
        self, side: int, now: Coefficients, others: Coefficients, noise: float
    ) -> tuple[Coefficients, NormalPrior]:
        """New coefficients of one side, and the prior that they were drawn from."""
        located = now.effects is not None
        prior = Hyperprior.usual(now.factors.shape[1], located).drawn(now.table, self._rng)
        entries = (self._by_rows, self._entries)[side]
        found = Conditional.of(entries, prior, others, noise, located, self._threads, self._used[side])
        self._used[side] = found.factors
        return now.like(found.drawn(self._rng, self._threads)), prior

    def _noise(self, now: State) -> float:
        """The size of the noise, given all coefficients."""
        y, weight = self._entries.y, self._entries.weight
        error = self._entries.pattern.predict(*now.joined(), self._threads)
        np.subtract(y, error, out=error)
        squares = float(np.einsum("p,p->", error if weight is None else error * weight, error))
        return math.sqrt((squares + COUNT * LEAST**2) / self._rng.chisquare(len(y) + COUNT))
