"""The state of a stream: the subspace and the effects of the features, learned from samples that are not kept.

The objective of a stream is that of all its samples. The trace norm and the ridge of the samples' effects are sums over
samples, so that every batch brings its own part of them; the ridge of the features' effects counts once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from rslm.data import ObservedMatrix, parts
from rslm.estimators.automatic.sample import ENTRIES, C_of_more_rows, sampled_rows
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.ridges import Ridges
from rslm.evaluation.objective import Evaluation, Objective
from rslm.location import Effects
from rslm.losses import Loss
from rslm.runtime.types import Floats
from rslm.solvers import Outcome, solve
from rslm.solvers.stochastic import StochasticSteps
from rslm.storage.container import Arrays

BATCH = 512  # samples of a step
FIRST = 4  # iterations on the first batch, for a starting point


@dataclass(frozen=True)
class Fixed:
    """What the first call sets for a stream with effects, which have to mean the same in all batches."""

    ridges: Ridges
    curvature: float  #: of the loss at a typical error
    scale: float  #: by which data of extreme magnitude are divided
    units: Floats | None  #: of the features

    @classmethod
    def of(cls, layout: Layout) -> Fixed | None:
        """From a layout of the first samples; None if it has no effects."""
        if layout.ridges is None:
            return None
        return cls(layout.ridges, layout.curvature, layout.scale, layout.units)


@dataclass(frozen=True)
class FirstSamples(Layout):
    """The layout of the first call, which sets C for any number of samples to come."""

    @cached_property
    def searched(self) -> Layout:
        rows = sampled_rows(self.data.row_counts(), ENTRIES)
        if len(rows) == self.data.shape[0]:
            return self
        chosen = np.zeros(self.data.shape[0], dtype=np.bool_)
        chosen[rows] = True
        return replace(self, data=self.data.subset(chosen[self.data.rows_of_entries()]))

    @cached_property
    def more(self) -> float:
        data = self.searched.data
        rows, columns = (int(np.count_nonzero(counts)) for counts in (data.row_counts(), data.col_counts()))
        return C_of_more_rows(columns, math.inf, rows)


@dataclass(frozen=True)
class LayoutOfBatch(Layout):
    """The layout of some samples of a stream with effects."""

    fixed: Fixed | None = None

    @classmethod
    def of(cls, data: ObservedMatrix, loss: Loss, C: float, fixed: Fixed) -> LayoutOfBatch:
        return cls(data, loss, C, 0.0, left="features", ridges=fixed.ridges, units=fixed.units, fixed=fixed)

    @cached_property
    def curvature(self) -> float:
        assert self.fixed is not None
        return self.fixed.curvature

    @cached_property
    def scale(self) -> float:
        assert self.fixed is not None
        return self.fixed.scale


@dataclass
class Stream:
    """What has been learned so far; its size does not depend on the number of samples."""

    C: float
    fixed: Fixed | None = None  #: None for a stream without effects
    steps: StochasticSteps | None = None
    samples: int = 0
    objective: list[float] = field(default_factory=list)  #: mean of a sample, in each batch of the last call
    seconds: list[float] = field(default_factory=list)

    def layout(self, data: ObservedMatrix, loss: Loss) -> Layout:
        """The layout of some samples; the features are on the left."""
        if self.fixed is None:
            return Layout(data, loss, self.C, 0.0, left="features")
        return LayoutOfBatch.of(data, loss, self.C, self.fixed)

    def learn(self, data: ObservedMatrix, loss: Loss, rank: int, rng: np.random.Generator, n_threads: int) -> None:
        """Take a step for every batch of samples."""
        self.objective, self.seconds = [], []
        began = time.perf_counter()
        for batch in batches(data):
            problem = self.layout(batch, loss).problem()
            if self.steps is None:
                if isinstance(rank, int | np.integer) and rank > min(problem.shape):  # else `solve` says what is wrong
                    raise ValueError(
                        f"the first samples of a stream must be at least as many as the rank, {rank}, and so must the "
                        f"features be; got {batch.shape[0]} samples of {batch.shape[1]} features"
                    )
                first = solve(problem, rank, max_iter=FIRST, tol=0.0, random_state=rng, n_threads=n_threads)
                if first.outcome is Outcome.INTERRUPTED:  # the start alone is not worth keeping
                    raise KeyboardInterrupt
                self.steps = StochasticSteps(first.U, first.effects)
            evaluation = self.evaluation(Objective(problem, n_threads))
            self.steps.step(evaluation)
            self.samples += batch.shape[0]
            self.objective.append(evaluation.value / batch.shape[0])
            self.seconds.append(time.perf_counter() - began)

    def evaluation(self, objective: Objective) -> Evaluation:
        """An objective of some samples at what has been learned."""
        assert self.steps is not None
        return objective.evaluate(objective.point(self.steps.U, self.steps.effects))

    # ---- files ---------------------------------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """The state of the stream, for the file of a model."""
        if self.steps is None:
            return {}
        U, curvature, shift, batches = self.steps.state()
        counts = np.array([shift, batches, self.samples, self.C])
        arrays = {"stream_U": U, "stream_curvature": curvature, "stream_counts": counts}
        if (fixed := self.fixed) is None or self.steps.effects is None:
            return arrays
        ridges = [np.nan if ridge is None else ridge for ridge in (fixed.ridges.rows, fixed.ridges.columns)]
        arrays["stream_fixed"] = np.array([*ridges, fixed.curvature, fixed.scale])
        arrays["stream_effects"] = np.append(self.steps.effects.rows, self.steps.effects.mean)
        return arrays if fixed.units is None else arrays | {"stream_units": fixed.units}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Stream | None:
        """The stream in the file of a model; None if there is none. Older versions wrote streams without effects."""
        if "stream_U" not in arrays:
            return None
        shift, batches, samples, C = (float(x) for x in parts.floats(arrays, "stream_counts", 4))
        if min(batches, samples) < 0 or not C > 0:
            raise ValueError("stream_counts")
        U = parts.floats(arrays, "stream_U", None, None)
        d, width = U.shape
        fixed = effects = None
        if "stream_effects" in arrays:
            fixed, width = _fixed(arrays, d), width + 1
            *rows, mean = parts.floats(arrays, "stream_effects", d + 1)
            effects = Effects(float(mean), np.array(rows), np.zeros(0), np.zeros(0))
        curvature = parts.floats(arrays, "stream_curvature", d, width, width)
        steps = StochasticSteps.of_state(U, curvature, shift, int(batches), effects)
        return cls(C, fixed, steps, int(samples))


def _fixed(arrays: Arrays, features: int) -> Fixed:
    rows, columns, curvature, scale = parts.floats(arrays, "stream_fixed", 4, finite=False)
    ridges = [None if np.isnan(ridge) else float(ridge) for ridge in (rows, columns)]
    units = parts.floats(arrays, "stream_units", features) if "stream_units" in arrays else None
    known = [curvature, scale, *(ridge for ridge in ridges if ridge is not None)]
    if not (np.isfinite(known).all() and min(known) >= 0.0 and min(curvature, scale) > 0.0):
        raise ValueError("stream_fixed")
    if units is not None and not (units > 0).all():
        raise ValueError("stream_units")
    return Fixed(Ridges(*ridges), float(curvature), float(scale), units)


def batches(data: ObservedMatrix) -> Iterator[ObservedMatrix]:
    """Batches of consecutive samples, without those that have no entry; entries are not copied."""
    for start in range(0, data.shape[0], BATCH):
        ends = data.indptr[start : start + BATCH + 1]
        at = slice(int(ends[0]), int(ends[-1]))
        indptr = np.unique(ends) - ends[0]
        if len(indptr) > 1:
            weights = None if data.weights is None else data.weights[at]
            shape = len(indptr) - 1, data.shape[1]
            yield ObservedMatrix(indptr, data.index[at], data.values[at], shape, weights=weights)
