"""Learning the subspace of the features from samples that arrive over time and are not kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from rslm.certificate import no_certificate
from rslm.data import ObservedMatrix, as_generator, parts
from rslm.estimators.choices import STREAMING, as_loss
from rslm.estimators.choices import is_auto
from rslm.estimators.completion.asked import Asked
from rslm.estimators.completion.completion import rank_limit
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.plain_completion import PlainCompletion
from rslm.estimators.defaults import usual_C
from rslm.evaluation.objective import Objective
from rslm.losses import Loss
from rslm.runtime.threads import single_threaded_blas, thread_count
from rslm.runtime.types import Floats
from rslm.solvers import Outcome, solve
from rslm.solvers.stochastic import StochasticSteps
from rslm.storage.container import Arrays, Facts

BATCH = 512  # samples of a step
FIRST = 4  # iterations on the first batch, for a starting point


@dataclass
class Stream:
    """What has been learned so far; its size does not depend on the number of samples."""

    steps: StochasticSteps | None = None
    samples: int = 0
    C: float | None = None  #: set by the first samples
    objective: list[float] = field(default_factory=list)  #: mean of a sample, in each batch of the last call
    seconds: list[float] = field(default_factory=list)

    def to_arrays(self) -> Arrays:
        """The state of the stream, for the file of a model."""
        if self.steps is None:
            return {}
        U, curvature, shift, batches = self.steps.state()
        counts = np.array([shift, batches, self.samples, self.C or 0.0])
        return {"stream_U": U, "stream_curvature": curvature, "stream_counts": counts}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Stream | None:
        """The stream in the file of a model; None if there is none."""
        if "stream_U" not in arrays:
            return None
        shift, batches, samples, C = (float(x) for x in parts.floats(arrays, "stream_counts", 4))
        if min(batches, samples) < 0:
            raise ValueError("stream_counts")
        U = parts.floats(arrays, "stream_U", None, None)
        curvature = parts.floats(arrays, "stream_curvature", len(U), U.shape[1], U.shape[1])
        steps = StochasticSteps.of_state(U, curvature, shift, int(batches))
        return cls(steps, int(samples), C or None)

    def learn(
        self, data: ObservedMatrix, loss: Loss, C: float, rank: int, rng: np.random.Generator, n_threads: int
    ) -> Floats:
        """Take a step for every batch of samples; returns U."""
        self.objective, self.seconds = [], []
        began = time.perf_counter()
        for batch in batches(data):
            problem = Layout(batch, loss, C, 0.0, left="features").problem()
            if self.steps is None:
                if isinstance(rank, int | np.integer) and rank > min(problem.shape):  # else `solve` says what is wrong
                    raise ValueError(
                        f"the first samples of a stream must be at least as many as the rank, {rank}, and so must the "
                        f"features be; got {batch.shape[0]} samples of {batch.shape[1]} features"
                    )
                first = solve(problem, rank, max_iter=FIRST, tol=0.0, random_state=rng, n_threads=n_threads)
                if first.outcome is Outcome.INTERRUPTED:  # the start alone is not worth keeping
                    raise KeyboardInterrupt
                self.steps = StochasticSteps(first.U)
            evaluation = Objective(problem, n_threads).evaluate(self.steps.U)
            self.steps.step(evaluation)
            self.samples += batch.shape[0]
            self.objective.append(evaluation.value / batch.shape[0])
            self.seconds.append(time.perf_counter() - began)
        assert self.steps is not None
        return self.steps.U


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


def obstacle(loss: Loss, weighting: object, bounds: object) -> str | None:
    """Why partial_fit is not possible; None if it is."""
    if bounds is not None:
        return "partial_fit knows no bounds; fit all samples at once, or leave bounds out"
    if weighting != 0 and not is_auto(weighting):
        return f"weighting={weighting!r} needs the counts of all entries, which a stream does not have; use 0"
    if not loss.smooth:
        return f"{loss!r} has kinks, where partial_fit has no step; use a smooth one, such as 'huber'"
    return None


def learns_from_streams(model: PartialFit) -> bool:
    """Whether the loss, the weighting and the bounds allow streams, for `available_if`."""
    why = obstacle(as_loss(model.loss), model.weighting, model.bounds)
    if why is not None:
        raise AttributeError(why)
    return True


class PartialFit(PlainCompletion):
    """Completion that can learn from samples that arrive over time."""

    _stream: Stream | None = None

    @available_if(learns_from_streams)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:
        """Learn from samples that arrive over time. Memory does not grow with the number of samples.

        Every batch of 512 samples is one step for the subspace of the features: a Newton step with the curvature of all
        samples so far. Older samples are forgotten slowly; there is no learning rate. Samples should come in random
        order, hundreds of them in a call. Afterwards `transform`, `predict(X)` and `recommend_for` take any samples;
        `row_factors_`, `residuals_` and `row_ids_` are those of the last X. A `fit` with ``warm_start=True`` starts
        from the answer; after a `fit`, a new stream begins. Bounds, weighting and losses with kinks are not possible,
        and there is no certificate. A stream has no effects, and nothing is held out of it: where `rank` and `C` are
        "auto", the first call sets them from the shape and the units of its samples.

        Parameters
        ----------
        X : array, DataFrame, scipy.sparse matrix or ObservedMatrix of shape (n_samples, n_features)
            As in `fit`. The first call needs at least as many samples as the rank; if `rank` is None, it sets the rank.
        y : ignored
        sample_weight : numbers ≥ 0, optional
            Weights of the entries, as in `fit`.
        """
        Asked.of(self.rank, self.C, self.weighting)  # wrong ones are errors
        stream = self._stream or Stream()
        given = self.rank is not None and not is_auto(self.rank)
        if stream.steps is not None and given and stream.steps.U.shape[1] != self.rank:
            learned = stream.steps.U.shape[1]
            raise ValueError(f"the stream has been learned at rank {learned}, and rank is {self.rank} now; set it back")
        data = self._observed(X, fitting=stream.steps is None, sample_weight=sample_weight)
        if len(data) == 0:  # nothing to learn from; in a first call it is an error
            return self
        loss, threads = self._checked_loss(), thread_count(self.n_threads)
        with single_threaded_blas():
            rank = rank_limit(self.rank, data.shape)
            if stream.C is None:
                stream.C = usual_C(data.shape, data.values, loss) if is_auto(self.C) else self.C
            U = stream.learn(data, loss, stream.C, rank, as_generator(self.random_state), threads)
            layout = Layout(data, loss, stream.C, 0.0, left="features")
            problem = layout.problem()
            evaluation = Objective(problem, threads).evaluate(U)
        self._stream = stream
        self._set(layout.model(U, evaluation.V, 0.0))
        self.certificate_ = no_certificate(
            problem, evaluation, self.tol, "of a stream only the last samples are at hand"
        )
        self.history_ = {"objective": np.array(stream.objective), "seconds": np.array(stream.seconds)}
        self.outcome_, self.converged_ = STREAMING, False
        assert stream.steps is not None
        self.n_iter_, self.rank_ = stream.steps.batches, int(np.linalg.matrix_rank(U))
        self.residuals_ = self._residuals(data)
        return self

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        return arrays | ({} if self._stream is None else self._stream.to_arrays()), facts

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = super()._from_file(params, arrays, facts)
        model._stream = Stream.from_arrays(arrays)
        return model
