"""Matrix completion from a stream of samples."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from rslm.certificate import no_certificate
from rslm.data import as_generator
from rslm.estimators.choices import STREAMING, as_loss
from rslm.estimators.completion.completion import rank_limit
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.plain_completion import PlainCompletion
from rslm.estimators.completion.streaming import Stream, obstacle
from rslm.evaluation.objective import Objective
from rslm.runtime.threads import single_threaded_blas, thread_count
from rslm.storage.container import Arrays, Facts


def learns_from_streams(model: PartialFit) -> bool:
    """Whether the loss, the weighting and the bounds allow streams, for `available_if`."""
    why = obstacle(as_loss(model.loss), model.weighting, model.bounds)
    if why is not None:
        raise AttributeError(why)
    return True


class PartialFit(PlainCompletion):
    """Completion that can learn from samples that arrive over time."""

    rank: int | None
    C: float
    _stream: Stream | None = None

    @available_if(learns_from_streams)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: object = None) -> Self:
        """Learn from samples that arrive over time. Memory does not grow with the number of samples.

        Every batch of 512 samples is one step for the subspace of the features: a Newton step with the curvature of all
        samples so far. Older samples are forgotten slowly; there is no learning rate. Samples should come in random
        order, hundreds of them in a call. Afterwards `transform`, `predict(X)` and `recommend_for` take any samples;
        `row_factors_`, `residuals_` and `row_ids_` are those of the last X. A `fit` with ``warm_start=True`` starts
        from the answer; after a `fit`, a new stream begins. Bounds, weighting and losses with kinks are not possible,
        and there is no certificate.

        Parameters
        ----------
        X : array, DataFrame, scipy.sparse matrix or ObservedMatrix of shape (n_samples, n_features)
            As in `fit`. The first call needs at least as many samples as the rank; if `rank` is None, it sets the rank.
        y : ignored
        """
        stream = self._stream or Stream()
        if stream.steps is not None and self.rank is not None and stream.steps.U.shape[1] != self.rank:
            learned = stream.steps.U.shape[1]
            raise ValueError(f"the stream has been learned at rank {learned}, and rank is {self.rank} now; set it back")
        data = self._observed(X, fitting=stream.steps is None)
        if len(data) == 0:  # nothing to learn from; in a first call it is an error
            return self
        loss, threads = self._checked_loss(), thread_count(self.n_threads)
        with single_threaded_blas():
            rank = rank_limit(self.rank, data.shape)
            U = stream.learn(data, loss, self.C, rank, as_generator(self.random_state), threads)
            layout = Layout(data, loss, self.C, 0.0, left="features")
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
