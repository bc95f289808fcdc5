"""Learning the subspace of the features from samples that arrive over time and are not kept."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from rslm.certificate import no_certificate
from rslm.data import ObservedMatrix, as_generator
from rslm.estimators.choices import STREAMING, as_loss, is_auto
from rslm.estimators.completion.asked import Asked, ridges_of, standardised, units_of
from rslm.estimators.completion.completion import rank_limit
from rslm.estimators.completion.finding import Finder
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.plain_completion import PlainCompletion
from rslm.estimators.completion.stream import FirstSamples, Fixed, Stream
from rslm.estimators.defaults import loss_for, usual_C
from rslm.evaluation.objective import Objective
from rslm.losses import Loss
from rslm.runtime.interrupts import deferred_interrupts
from rslm.runtime.threads import single_threaded_blas, thread_count
from rslm.runtime.types import Floats
from rslm.storage.container import Arrays, Facts


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
    if getattr(model, "average", None) is not None:
        why = f"average={model.average} draws from all samples, which a stream does not keep; leave it out"
    if why is not None:
        raise AttributeError(why)
    return True


class PartialFit(PlainCompletion):
    """Completion that can learn from samples that arrive over time."""

    C_: float
    weighting_: float
    path_: dict[str, Floats] | None
    held_out_: dict[str, float] | None
    _stream: Stream | None = None

    @available_if(learns_from_streams)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:
        """Learn from samples that arrive over time. Memory does not grow with the number of samples.

        Every batch of 512 samples is one step for the subspace and the effects of the features: a Newton step with the
        curvature of all samples so far. Older samples are forgotten slowly; there is no learning rate. Samples should
        come in random order, hundreds of them in a call. Afterwards `transform`, `predict(X)` and `recommend_for` take
        any samples; `row_factors_`, `row_effects_`, `residuals_` and `row_ids_` are those of the last X, so that
        ``predict(rows, cols)`` and `recommend` answer for its samples only. A `fit` with ``warm_start=True`` starts
        from the answer. A stream cannot continue a `fit`: a model that was fitted by `fit` is an error. Bounds,
        weighting and losses with kinks are not possible, and there is no certificate.

        The first call sets what is "auto": the ridges of the effects, whether features are standardised, and C, which
        is searched by held-out entries of its samples, unless ``effects=None``. `rank` is then 10, or less where there
        are fewer features or samples. The ridge of the features' effects counts once for the whole stream.

        Parameters
        ----------
        X : array, DataFrame, scipy.sparse matrix or ObservedMatrix of shape (n_samples, n_features)
            As in `fit`; every row is a whole new sample. The first call needs at least as many samples as the rank; if
            `rank` is None, it sets the rank.
        y : ignored
        sample_weight : numbers ≥ 0, optional
            Weights of the entries, as in `fit`.
        """
        asked = Asked.of(self.rank, self.C, self.weighting)  # wrong ones are errors
        stream = self._stream
        if stream is not None:
            self._check_same(stream)
        elif hasattr(self, "certificate_"):
            raise ValueError(
                "this model was fitted by fit, whose answer partial_fit would discard: a stream starts with "
                "partial_fit. To continue the fit with more data, set warm_start=True and call fit with all samples; "
                "to start a stream, use a new model: sklearn.base.clone(model)"
            )
        data = self._observed(X, fitting=stream is None, sample_weight=sample_weight)
        if len(data) == 0:  # nothing to learn from; in a first call it is an error
            return self
        threads = thread_count(self.n_threads)
        with single_threaded_blas():
            rank = rank_limit(self.rank, data.shape)
            stream, loss = self._begun(data, asked, rank, threads) if stream is None else (stream, self._checked_loss())
            stream.learn(data, loss, rank, as_generator(self.random_state), threads)
            layout = stream.layout(data, loss)
            problem = layout.problem()
            evaluation = stream.evaluation(Objective(problem, threads))
        self._stream = stream
        self._set(layout.model(evaluation.U, evaluation.V, 0.0, evaluation.effects))
        self.C_, self.weighting_ = stream.C, 0.0
        self.certificate_ = no_certificate(
            problem, evaluation, self.tol, "of a stream only the last samples are at hand"
        )
        self.history_ = {"objective": np.array(stream.objective), "seconds": np.array(stream.seconds)}
        self.outcome_, self.converged_ = STREAMING, False
        assert stream.steps is not None
        self.n_iter_, self.rank_ = stream.steps.batches, int(np.linalg.matrix_rank(evaluation.U))
        self.residuals_ = self._residuals(data)
        return self

    def _begun(self, data: ObservedMatrix, asked: Asked, rank: int, threads: int) -> tuple[Stream, Loss]:
        """A stream with what its first samples set, and its loss."""
        kind = as_loss(self.loss)
        units = units_of(self.scale, data, kind, self.effects is not None, bounded=False)
        values = standardised(data, units, kind)
        loss = loss_for(self.loss, lambda: values, data.weights)
        ridges = ridges_of(self.effects, data, loss, units)
        C = usual_C(data.shape, values, loss) if asked.C is None else asked.C
        layout: Layout = FirstSamples(data, loss, C, 0.0, left="features", ridges=ridges, units=units)
        self.path_, self.held_out_, self._intervals = None, None, None
        self._in_deviations = units is not None
        if asked.C is None and ridges is not None:
            seed = int(as_generator(self.random_state).integers(2**31))
            given = Asked(rank, None, 0.0, fixed=True)
            with deferred_interrupts() as interrupt:
                finder = Finder(given, rank, seed, threads, interrupt, None, 0.0, lambda at: None, free_effects=False)
                found = finder.chosen(layout)
            if not found.complete:
                raise KeyboardInterrupt
            layout, self.path_, self.held_out_ = found.layout, found.path, found.held_out
        return Stream(layout.C, Fixed.of(layout)), loss

    def _check_same(self, stream: Stream) -> None:
        """Refuse parameters that a stream was not begun with; those that are "auto" were set when it began."""
        assert stream.steps is not None
        learned, given = stream.steps.U.shape[1], self.rank is not None and not is_auto(self.rank)
        if given and learned != self.rank:
            raise ValueError(f"the stream has been learned at rank {learned}, but rank is {self.rank} now; set it back")
        if not is_auto(self.effects):
            known = None if stream.fixed is None else (stream.fixed.ridges.rows, stream.fixed.ridges.columns)
            if known != (None if self.effects is None else tuple(self.effects)):
                raise ValueError(
                    f"the stream has been learned with effects={known}, and effects is {self.effects!r} now; set it "
                    "back, or to 'auto'"
                )

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        return arrays | ({} if self._stream is None else self._stream.to_arrays()), facts

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = super()._from_file(params, arrays, facts)
        model._stream = Stream.from_arrays(arrays)
        return model
