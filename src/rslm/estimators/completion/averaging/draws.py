"""Draws of a posterior: effects, noise and priors of every draw. The factors of all draws are those of the model.

The n draws of the factors of rows stand side by side in one matrix, divided by √n, and so do those of the columns: the
product of the two is the mean of the products of the draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from rslm.data import ObservedMatrix, parts
from rslm.kernels import Columns, predict_pairs
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats, Indices64
from rslm.sampling import Coefficients, Conditional, Entries, NormalPrior
from rslm.storage.container import Arrays

NAMES = ("row_effects", "col_effects", "noise", "means", "precisions")  # in files, after "draws_"


@dataclass(frozen=True)
class Draws:
    """What every draw has besides its factors, in the units of the data; one draw after another."""

    row_effects: Floats  #: (n, n_samples)
    col_effects: Floats  #: (n, n_features), intercepts included
    noise: Floats  #: (n,), standard deviations, in units of the features if they have units
    means: Floats  #: (n, k), of the prior of the coefficients of a sample: its factors and, if it has one, its effect
    precisions: Floats  #: (n, k, k), of that prior

    def __len__(self) -> int:
        return len(self.noise)

    def _each(self, stacked: Floats) -> Iterator[Floats]:
        """The factors of one draw after another."""
        width = stacked.shape[1] // len(self)
        for s in range(len(self)):
            yield np.ascontiguousarray(stacked[:, s * width : (s + 1) * width]) * math.sqrt(len(self))

    def last(self, stacked: Floats) -> Floats:
        """The factors of the last draw."""
        width = stacked.shape[1] // len(self)
        return np.asarray(stacked[:, -width:] * math.sqrt(len(self)))

    def spread(self, rows: Floats, cols: Floats, i: Indices64, j: Indices64, threads: int) -> Floats:
        """The standard deviation over the draws of the predictions of entries."""
        mean, squares = np.zeros(len(i)), np.zeros(len(i))
        for s, (left, right) in enumerate(zip(self._each(rows), self._each(cols), strict=True)):
            raise_if_stopped()
            prediction = predict_pairs(i, j, left, right, threads)
            prediction += self.row_effects[s, i] + self.col_effects[s, j]
            apart = prediction - mean
            mean += apart / (s + 1)
            squares += apart * (prediction - mean)
        return np.sqrt(squares / len(self))

    def fold_in(self, data: ObservedMatrix, cols: Floats, units: Floats | None, threads: int) -> tuple[Floats, Floats]:
        """Factors of new samples in all draws, side by side as those of the features, and their mean effects."""
        width, n = cols.shape[1] // len(self), len(self)
        codes, effects = np.empty((data.shape[0], cols.shape[1])), np.zeros(data.shape[0])
        for s, found in enumerate(self._conditionals(data, cols, units, threads)):
            table = found.mean()
            codes[:, s * width : (s + 1) * width] = table[:, :width] / math.sqrt(n)
            if table.shape[1] > width:
                effects += table[:, width] / n
        return codes, effects

    def left_out(self, data: ObservedMatrix, cols: Floats, units: Floats | None, threads: int) -> Floats:
        """Every observed entry predicted from the other entries of its sample."""
        total = np.zeros(len(data))
        for found in self._conditionals(data, cols, units, threads):
            total += found.left_out(threads)
        total /= len(self)
        return total if units is None else np.asarray(total * units[data.index])

    def _conditionals(
        self, data: ObservedMatrix, cols: Floats, units: Floats | None, threads: int
    ) -> Iterator[Conditional]:
        """The distributions of the coefficients of new samples, given the features of one draw after another."""
        by = np.ones(data.shape[1]) if units is None else units
        y = np.asarray(data.values / by[data.index], dtype=np.float64)
        entries = Entries(Columns(data.indptr, data.index, data.shape[1]), y, data.weights)
        used = None
        for s, features in enumerate(self._each(cols)):
            raise_if_stopped()
            located = self.means.shape[1] > features.shape[1]
            of_features = Coefficients(features / by[:, None], self.col_effects[s] / by)
            prior = NormalPrior(self.means[s], self.precisions[s])
            found = Conditional.of(entries, prior, of_features, float(self.noise[s]), located, threads, used)
            used = found.factors
            yield found

    def to_arrays(self) -> Arrays:
        return {f"draws_{name}": getattr(self, name) for name in NAMES}

    @classmethod
    def from_arrays(cls, arrays: Arrays, shape: tuple[int, int], rank: int) -> Self | None:
        """The draws that a file of a model of this shape and number of factors holds; None if it holds none."""
        if "draws_noise" not in arrays:
            return None
        noise = parts.floats(arrays, "draws_noise", None)
        n = len(noise)
        means = parts.floats(arrays, "draws_means", n, None)
        k = means.shape[1]
        if n == 0 or not (noise > 0).all() or rank % n or k - rank // n not in (0, 1):
            raise ValueError("draws_noise")
        rows, cols = (
            parts.floats(arrays, f"draws_{a}_effects", n, m) for a, m in zip(("row", "col"), shape, strict=True)
        )
        return cls(rows, cols, noise, means, parts.floats(arrays, "draws_precisions", n, k, k))
