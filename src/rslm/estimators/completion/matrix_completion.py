"""Complete a matrix from some of its entries."""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import asdict, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from rslm.certificate import Certificate, no_certificate
from rslm.data import Labels, ObservedMatrix, as_generator, parts
from rslm.estimators.callbacks import Teller
from rslm.estimators.choices import (
    OWN,
    STREAMING,
    as_loss,
    as_seed,
    checked_data,
    needs_distributed,
    warn_if_not_converged,
)
from rslm.estimators.completion.bounds import as_box, clipped, from_plain, tell_of_beyond
from rslm.estimators.completion.distributed_layout import DistributedLayout
from rslm.estimators.completion.fitted_samples import FittedSamples
from rslm.estimators.completion.fold_in import Subspace
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.recommend import Known, Recommending
from rslm.estimators.completion.streaming import Stream, obstacle
from rslm.estimators.persistence import (
    certificate_of,
    check_settings,
    facts_of_fit,
    history_of,
    ids_from_array,
    ids_to_array,
    loss_from_plain,
    save,
    storable,
)
from rslm.estimators.scaling import extreme_scale, in_units
from rslm.evaluation.dual import sum_in_blocks
from rslm.evaluation.objective import Objective
from rslm.kernels import Columns, predict_pairs
from rslm.kernels.scratch import room_like
from rslm.losses import BoxDual, Logistic, Loss
from rslm.runtime.interrupts import held_back
from rslm.runtime.log import log_shown
from rslm.runtime.magnitudes import LARGEST, LEAST, as_float
from rslm.runtime.threads import single_threaded_blas, thread_count
from rslm.runtime.types import Floats, Indices64
from rslm.solvers import Result, solve
from rslm.solvers.stopping import time_left
from rslm.storage.container import Arrays, Facts

USUAL_RANK = 10  # where none is given
BLOCK = 1 << 21  # entries that are worked on at a time
NOTHING = 1e-12  # entries this small relative to the data are 0 but for rounding
SCORE_OF_NORMAL = 1.4826  # medians of |x| in a standard deviation of x, for normal x


def has_probabilities(model: MatrixCompletion) -> bool:
    """Only the logistic loss says how probable a class is."""
    if isinstance(model.loss, Logistic) or model.loss == "logistic":
        return True
    raise AttributeError(f"predict_proba needs loss='logistic'; this model has loss={model.loss!r}")


def learns_from_streams(model: MatrixCompletion) -> bool:
    """Those that choose settings or know features look at all samples at once; of the others it depends."""
    if type(model) is not MatrixCompletion:
        raise AttributeError(f"{type(model).__name__} needs all samples at once; partial_fit is for MatrixCompletion")
    why = obstacle(as_loss(model.loss), model.weighting, model.bounds)
    if why is not None:
        raise AttributeError(why)
    return True


@storable
class MatrixCompletion(Recommending, CallbackSupportMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Low-rank matrix completion with a certificate of optimality.

    Learns W of rank at most `rank` that minimises ``C Σ loss(x_ij, w_ij) + ½ ‖W‖_*²`` over the observed entries of X,
    where ‖W‖_* is the trace norm, the sum of the singular values.

    Parameters
    ----------
    rank : int, optional
        Largest rank of W, at most the smaller side of X; 10, or that side if it is smaller, if None.
    C : float, default=1e3
        Weight of the loss, a sum over the observed entries, against the trace norm. Larger fits the data more closely.
    loss : str or Loss, default="square"
        "square", "absolute", "epsilon_insensitive", "huber", "quantile" for real numbers, "logistic", "hinge",
        "squared_hinge" for two classes (booleans, 0 and 1, or −1 and 1), or an instance with parameters, such as
        ``rslm.losses.Huber(0.5)``. Of those with kinks (absolute, ε-insensitive, quantile, hinge) a rounded form is
        solved; the certificate is for the loss itself, and says how far it was rounded.
    bounds : (lower, upper), Box or None
        Bounds of all entries of W, not only of the observed ones: ``(0, None)`` for a non-negative matrix, ``(1, 5)``
        for ratings. Each is a number, an array with one number for every feature, an array of shape (n_samples, 1) or
        (n_samples, n_features), or None. Observed values beyond them are fitted as well as the bounds allow, with a
        warning; ``rslm.structures.Box(lower, upper, strict=True)`` makes them an error.
    weighting : float, default=0.0
        Exponent α of the weighted trace norm: rows and columns with n observed entries are weighted by n^α, relative
        to the average. 0 is the plain trace norm; 0.5 often predicts better where some rows have far more entries.
    solver : {"trust-region", "conjugate-gradient"}, default="trust-region"
        How to step: with second derivatives, in few iterations, or without, in cheaper ones.
    max_iter : int, default=1000
        Most outer iterations.
    tol : float, default=1e-6
        Converged when the relative gradient, certified when the relative duality gap is at most this.
    max_time : float, optional
        Seconds after which the best answer so far is kept. It comes within two seconds after that, as it does after
        Ctrl-C, and keeps the bounds; there may be no time for a certificate, which then says so.
    warm_start : bool, default=False
        Whether `fit` begins at the subspace that the last `fit` or `partial_fit` has found, if that had as many
        features and the same rank.
    random_state : int, RandomState, Generator or None
        Seed of the start.
    n_threads : int, optional
        Threads to use, all cores if None. The answer does not depend on it.
    verbose : int, default=0
        1 logs every iteration to the logger "rslm".

    Attributes
    ----------
    row_factors_, col_factors_ : arrays (n_samples, rank) and (n_features, rank)
        W = row_factors_ @ col_factors_.T. Rows and columns without an observed entry have the average factor.
    certificate_ : Certificate
        Bounds of the objective from both sides; ``print(model.certificate_)`` says what they mean.
    history_ : dict of arrays
        objective, gradient_norm, relative_gradient, seconds, evaluations, hessian_products after every iteration, and
        the C, the rounding of the loss and the softness of the bounds that the objective had: where C is large, the
        solver comes from smaller ones, where the loss has kinks, from a square loss and rounded ones, where there are
        bounds, from none and soft ones. Rounding and softness are NaN while there is neither.
    outcome_ : str
        Why the solver ended: certified, stationary, iterations, time, stalled, interrupted or failed.
    converged_ : bool
        Whether that means convergence.
    n_iter_ : int
        Outer iterations, those on the way included.
    rank_ : int
        The rank of W, which may be below the limit.
    residuals_ : ObservedMatrix
        What is left of the observed entries: x − w; with the logistic loss 0 or 1 less the probability of 1, with the
        hinge losses what is missing to the right side by 1. ``.to_dense()`` is an array with NaN at missing entries.
        A model that was loaded from a file, or fitted by a cluster, has none.
    outlier_scores_ : ObservedMatrix
        |residuals_| in units of their usual size, 1.4826 times the median (of those that are not 0, if most are): which
        entries a robust loss has ignored.
    classes_ : array of two, or None
        How the two classes are written, for a loss of two classes.
    n_features_in_, feature_names_in_ : int and array
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from rslm import MatrixCompletion
    >>> X = np.outer([1.0, 2, 3, 4], [1.0, 2, 3])
    >>> X[3, 2] = np.nan
    >>> model = MatrixCompletion(rank=1, C=1e4).fit(X)
    >>> model.predict([3], [2]).round(2)
    array([12.])
    """

    def __init__(
        self,
        rank: int | None = None,
        C: float = 1e3,
        *,
        loss: str | Loss = "square",
        bounds: Any = None,
        weighting: float = 0.0,
        solver: str = "trust-region",
        max_iter: int = 1000,
        tol: float = 1e-6,
        max_time: float | None = None,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.C = C
        self.loss = loss
        self.bounds = bounds
        self.weighting = weighting
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    _last: Floats | None = None  # where the last fit has ended

    # ---- fitting -------------------------------------------------------------------------------------------------

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(
        self, X: Any, y: object = None, *, checkpoint: str | os.PathLike[str] | None = None, client: Any = None
    ) -> Self:
        """Learn the factors from the observed entries of X.

        Parameters
        ----------
        X : array, DataFrame, scipy.sparse matrix or ObservedMatrix of shape (n_samples, n_features), or a path
            NaN is missing in dense input; stored entries of sparse input are observed, zeros included. A file is read
            as by `ObservedMatrix.read`, a folder is one of prepared data.
        y : ignored
        checkpoint : path, optional
            A file that is written now and then, while the fit runs. If it is stopped in any way, the same `fit` goes on
            from there, to bitwise the same answer, and a `fit` that has converged ends at once. `history_` counts the
            time before, `max_time` does not. A file of other data or settings is refused; `max_iter`, `max_time`,
            `n_threads` and `verbose` may be others.
        client : distributed.Client, optional
            Of a Dask cluster, whose workers share the samples out and solve for them. X may then also be a folder of
            prepared data, a Parquet file or a folder of them, on storage that all workers see, or a Dask DataFrame with
            one entry a line. The answer is the same; it has no `residuals_`.
        """
        began = time.perf_counter()
        self._check_weighting()
        loss, layout, start = self._checked_loss(), self._layout(X, client), None
        data, box = layout.data, layout.box
        if box is not None and not loss.binary:
            tell_of_beyond(box, data, layout.beyond(box))
        subspace: Subspace | None = getattr(self, "_subspace", None)
        if (
            self.warm_start
            and subspace is not None
            and subspace.features.shape == (data.shape[1], self._limit(data.shape))
        ):
            layout = replace(layout, left="features")
            start = layout.start(subspace.features)
        self.__dict__.pop("_stream", None)
        # The matrices here are thin.
        with held_back(), log_shown(self.verbose), single_threaded_blas():
            left = time_left(self.max_time, began)
            self._fit(X, layout, start, max_time=left, checkpoint=checkpoint)
        return self

    def _layout(self, X: Any, client: Any) -> Layout:
        data = self._observed(X, fitting=True) if client is None else self._distributed(X, client)
        box = as_box(self.bounds, data.shape, data.col_ids)
        kind = Layout if client is None else DistributedLayout
        return kind(data, self._checked_loss(), self.C, float(self.weighting), box)

    def _distributed(self, X: Any, client: Any) -> Any:
        needs_distributed()
        from rslm.distributed import distribute

        if not (isinstance(X, str | os.PathLike) or hasattr(X, "map_partitions") or hasattr(X, "cluster")):
            X = self._observed(X, fitting=True)
        data = distribute(X, client)
        if not isinstance(X, ObservedMatrix):  # of which the names have been seen to
            self.n_features_in_ = data.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        return data

    @available_if(learns_from_streams)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: object = None) -> Self:
        """Learn from samples that arrive over time, with memory that does not depend on how many came before.

        Every 512 samples are a step for the subspace of the features, Newton's with the curvature of all samples so
        far; older ones are forgotten slowly, and no rate has to be chosen. Samples should come in random order, and
        hundreds of them in a call. Afterwards `transform`, `predict(X)` and `recommend_for` take any samples;
        `row_factors_` and the like are those of the last X. A `fit` with ``warm_start=True`` polishes the answer; after
        a `fit`, a new stream begins. There are no bounds, no weighting and no losses with kinks, and there is no
        certificate.

        Parameters
        ----------
        X : array, DataFrame, scipy.sparse matrix or ObservedMatrix of shape (n_samples, n_features)
            As in `fit`. The first call needs at least as many samples as the rank; where that is None, it decides.
        y : ignored
        """
        stream: Stream = getattr(self, "_stream", None) or Stream()
        if stream.steps is not None and self.rank is not None and stream.steps.U.shape[1] != self.rank:
            learned = stream.steps.U.shape[1]
            raise ValueError(f"the stream has been learned at rank {learned}, and rank is {self.rank} now; set it back")
        data = self._observed(X, fitting=stream.steps is None)
        if len(data) == 0:  # nothing to learn from; of a first call it is an error
            return self
        loss, threads = self._checked_loss(), thread_count(self.n_threads)
        with single_threaded_blas():
            U = stream.learn(data, loss, self.C, self._limit(data.shape), as_generator(self.random_state), threads)
            layout = Layout(data, loss, self.C, 0.0, left="features")
            problem = layout.problem()
            evaluation = Objective(problem, threads).evaluate(U)
        for name, value in layout.model(U, evaluation.V, 0.0).items():
            setattr(self, name, value)
        self._stream, self._last = stream, U
        self.certificate_ = no_certificate(
            problem, evaluation, self.tol, "of a stream only the last samples are at hand"
        )
        self.history_ = {"objective": np.array(stream.objective), "seconds": np.array(stream.seconds)}
        self.outcome_, self.converged_ = STREAMING, False
        assert stream.steps is not None
        self.n_iter_, self.rank_ = stream.steps.batches, int(np.linalg.matrix_rank(U))
        self.residuals_ = self._residuals(data)
        return self

    def _fit(
        self,
        X: Any,
        layout: Layout,
        start: Floats | None = None,
        limit: int | None = None,
        teller: Teller | None = None,
        max_time: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        known: Result | None = None,
    ) -> None:
        """Solve what the layout says, unless the answer is known, and keep the model that it makes of it."""
        data, box, problem = layout.data, layout.box, layout.problem()
        rank = self._limit(problem.shape) if limit is None else limit
        teller = Teller(self, X) if teller is None else teller
        callback = teller.about(layout.at, layout.scale)
        result = known or solve(
            problem,
            rank,
            start=start if start is not None and start.shape == (problem.shape[0], rank) else None,
            solver=self.solver,
            max_iter=self.max_iter,
            tol=self.tol,
            max_time=self.max_time if max_time is None else max_time,
            callback=callback,
            random_state=as_seed(self.random_state),
            n_threads=self.n_threads,
            checkpoint=checkpoint,
        )
        for name, value in layout.model(result.U, result.V, result.certificate.rounding).items():
            setattr(self, name, value)
        self.certificate_ = result.certificate.scaled(layout.scale)
        in_squares = ("objective", "gradient_norm")
        self.history_ = {k: in_units(v, layout.scale) if k in in_squares else v for k, v in result.history.items()}
        self._last = result.U
        self.outcome_ = result.outcome.value
        self.converged_ = result.converged
        self.n_iter_ = max(result.n_iter, 1)  # at least the start has been looked at
        self.rank_ = result.numerical_rank()
        self.__dict__.pop("residuals_", None)
        if layout.at_hand:
            self.residuals_ = self._residuals(data)
        else:
            layout.data.cluster.forget()  # type: ignore[attr-defined]
        gradient = float(result.history["relative_gradient"][-1])
        warn_if_not_converged(result.outcome, self.max_iter, gradient, bounded=box is not None)
        most = float(np.abs(self.row_factors_).max() * np.abs(self.col_factors_).max()) * rank
        if box is not None and most <= NOTHING * layout.largest:
            warnings.warn(
                "the learned matrix is zero everywhere: no other one within the bounds fits the data better, at this C",
                UserWarning,
                stacklevel=4,
            )
        if self.classes_ is not None and layout.one_class:
            warnings.warn(
                "only one class is observed; of a sparse matrix the stored entries are, so store the zeros too",
                UserWarning,
                stacklevel=4,
            )
        self._warn_of_unobserved(layout)
        teller.done()

    def _warn_of_unobserved(self, layout: Layout) -> None:
        data, alike = layout.data, layout.alike
        samples, features = int((data.row_counts() == 0).sum()), int((data.col_counts() == 0).sum())
        if samples or features:
            average = (alike[0] or not samples) and (alike[1] or not features)
            warnings.warn(
                f"{samples} of {data.shape[0]} samples and {features} of {data.shape[1]} features have no observed "
                "entry; "
                + (
                    "they are predicted like an average one"
                    if average
                    else "where they have bounds of their own, nothing "
                    "but these are known of them; the others are predicted like an average one"
                ),
                UserWarning,
                stacklevel=5,
            )

    # ---- predicting ------------------------------------------------------------------------------------------------

    def predict(self, rows: Any, cols: ArrayLike | None = None) -> Floats:
        """Predict the entries (rows[k], cols[k]).

        Parameters
        ----------
        rows, cols : arrays of one length
            Positions, or ids where `fit` was given ids. Without `cols`, `rows` is a dense matrix X of samples.

        Returns
        -------
        array
            One value a pair; for a loss of two classes the decision value: positive for the second class, negative for
            the first. Of a matrix X, the model's value of all entries, where `transform` keeps the observed ones.
        """
        check_is_fitted(self)
        if cols is None:
            return self._reconstructed(self._dense_samples(rows))
        i, j = self._rows.positions(rows), self._cols.positions(cols)
        if i.shape != j.shape:
            raise ValueError(f"rows and cols must have the same length; got {len(i)} and {len(j)}")
        w = predict_pairs(i, j, self.row_factors_, self.col_factors_, thread_count(self.n_threads))
        return clipped(w, self._box, i, j)

    def _folded(self, data: ObservedMatrix) -> tuple[Floats, Floats]:
        """Factors of new samples and of the features, whose products are the predictions."""
        features = self._subspace.features
        codes = self._subspace.fold_in(data, self._solved_loss(), thread_count(self.n_threads))
        if (empty := data.row_counts() == 0).any() and (self._box is None or self._box.shape[0] == 1):
            average = self.col_factors_ @ self.row_factors_.mean(axis=0)  # which is in the same subspace
            codes[empty] = np.linalg.lstsq(features, average)[0]
        return codes, features

    @available_if(has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, rows: Any, cols: ArrayLike | None = None) -> Floats:
        """The probability of the second class, 1, for the entries that `predict` would give the decision values of.

        Parameters
        ----------
        rows, cols : as in `predict`
        """
        return Logistic().probability(self.predict(rows, cols))

    def transform(self, X: Any) -> Floats:
        """Fill the missing entries of X, with classes if the loss is one of two classes; observed ones are kept.

        Every sample is fitted at the learned subspace of the features, so samples that `fit` has not seen are filled
        in the same way. The result is dense.

        Parameters
        ----------
        X : array, DataFrame, scipy.sparse matrix or ObservedMatrix with the features that `fit` was given
        """
        check_is_fitted(self)
        data = self._observed(X, fitting=False)
        return self._with_observed(data, self._reconstructed(data))

    def _dense_samples(self, X: Any) -> ObservedMatrix:
        if sparse.issparse(X) or isinstance(X, ObservedMatrix):
            raise ValueError(
                "predict(X) would give a dense result for sparse data; use predict(rows, cols) for single entries "
                "or transform(X) for a filled matrix"
            )
        return self._observed(X, fitting=False)

    def _with_observed(self, data: ObservedMatrix, filled: Floats) -> Floats:
        """The classes that values stand for, if there are any, and the observed entries as they are."""
        if self.classes_ is not None:
            filled = self.classes_[(filled > 0).astype(int)]
        known = data.values if self.classes_ is None else self.classes_[(data.values > 0).astype(int)]
        filled[data.rows_of_entries(), data.index] = known
        return filled

    def _reconstructed(self, data: ObservedMatrix) -> Floats:
        codes, features = self._folded(data)
        W: Floats = codes @ features.T
        if self._box is not None:  # rounding errors
            np.clip(W, *self._box.planes(W.shape), out=W)
        return W

    def score(self, X: Any, y: object = None) -> float:
        """R² of the prediction on the observed entries of X; for a loss of two classes the part that is right.

        Row ids decide whether X holds the fitted samples. Without them, an X of the shape that `fit` was given holds
        the fitted samples, unless it contradicts what `fit` has seen. Any other X holds new samples: each of their
        entries is predicted from the other entries of its sample.

        Parameters
        ----------
        X : as in `fit`
        y : ignored
        """
        check_is_fitted(self)
        data = self._observed(X, fitting=False)._not_empty(allow_empty=False)
        rows = self._fitted_rows(data)
        if rows is not None:
            columns = Columns(data.indptr, data.index, data.shape[1])
            prediction = columns.predict(self.col_factors_, self.row_factors_[rows], thread_count(self.n_threads))
        else:
            prediction = self._subspace.left_out(data, self._solved_loss(), thread_count(self.n_threads))
        return self._score(data, prediction)

    def _score(self, data: ObservedMatrix, prediction: Floats) -> float:
        y, n = data.values, len(data)
        if self.classes_ is not None:
            return sum_in_blocks(lambda at: (prediction[at] > 0) == (y[at] > 0), n) / n
        targets = self._checked_loss().targets
        scale = extreme_scale(np.array([y.max(), y.min(), prediction.max(), prediction.min()], dtype=np.float64))
        mean = sum_in_blocks(lambda at: targets(y[at]) / scale, n) / n
        left = sum_in_blocks(lambda at: ((targets(y[at]) - prediction[at]) / scale) ** 2, n)
        total = sum_in_blocks(lambda at: (targets(y[at]).astype(np.float64) / scale - mean) ** 2, n)
        return 1.0 - left / total if total > 0 else float(left == 0)

    def certify(self, X: Any) -> Certificate:
        """How far the learned subspace of the features is from the optimum on other data, solved at that subspace.

        Parameters
        ----------
        X : array, DataFrame, scipy.sparse matrix or ObservedMatrix with the features that `fit` was given
            Its rows may be other samples, as many as you like.

        Returns
        -------
        Certificate
        """
        check_is_fitted(self)
        data = self._observed(X, fitting=False)._not_empty(allow_empty=False)
        C, weighting = self._subspace.C, float(self.weighting)
        layout = Layout(data, self._checked_loss(), C, weighting, self._box, left="features")
        start = layout.start(self._subspace.features)
        result = solve(
            layout.problem(), start.shape[1], start=start, max_iter=0, tol=self.tol, n_threads=self.n_threads
        )
        return result.certificate.scaled(layout.scale)

    @property
    def row_ids_(self) -> NDArray[Any] | None:
        """The ids of the samples; None if there are none."""
        check_is_fitted(self)
        labels: Labels = self._rows
        return labels.ids

    @property
    def col_ids_(self) -> NDArray[Any] | None:
        """The ids of the features; None if there are none."""
        check_is_fitted(self)
        labels: Labels = self._cols
        return labels.ids

    def _solved_loss(self) -> Loss:
        """The loss as it was solved: with its kinks rounded, if it has any."""
        loss = self._checked_loss()
        return loss.smoothed(self._rounding) if self._rounding > 0 and isinstance(loss, BoxDual) else loss

    def _residuals(self, data: ObservedMatrix) -> ObservedMatrix:
        columns = Columns(data.indptr, data.index, data.shape[1])
        w = columns.predict(self.col_factors_, self.row_factors_, thread_count(self.n_threads))
        loss, residual = self._checked_loss(), room_like(data.values)
        for start in range(0, len(data), BLOCK):
            at = slice(start, start + BLOCK)
            y = loss.targets(data.values[at])
            left = (y > 0) - loss.probability(w[at]) if isinstance(loss, Logistic) else y - w[at]
            if self.classes_ is not None and not isinstance(loss, Logistic):
                left[left * y < 0] = 0.0  # on the right side by 1 or more there is nothing left
            residual[at] = np.clip(left, -np.finfo(residual.dtype).max, np.finfo(residual.dtype).max)
        return data.with_values(residual)

    @property
    def outlier_scores_(self) -> ObservedMatrix:
        """|residuals_| in units of their usual size: above 3 an entry is unusual, above 10 hardly part of the rest."""
        check_is_fitted(self)
        if not hasattr(self, "residuals_"):
            raise AttributeError(
                "a model that was loaded from a file or fitted by a cluster has no residuals; fit it here to have them"
            )
        size = np.abs(self.residuals_.values)
        half = 0.5 * size  # a median is a mean of two, whose sum must be finite
        usual = 2.0 * np.median(half) or (2.0 * np.median(half[half > 0]) if half.any() else 1.0)
        with np.errstate(over="ignore"):
            scores = np.minimum(size / (SCORE_OF_NORMAL * usual), np.finfo(size.dtype).max)
        return self.residuals_.with_values(scores)

    def _fitted_rows(self, data: ObservedMatrix) -> Indices64 | None:
        """Which of the fitted samples these are, by ids or else by comparing entries; None if they are others."""
        if data.row_ids is not None and self._rows.ids is not None:
            return self._rows.positions(data.row_ids) if self._rows.knows(data.row_ids) else None
        return np.arange(data.shape[0]) if self._seen.may_be(data) else None

    def _to_file(self) -> tuple[Arrays, Facts]:
        names = ("row_factors_", "col_factors_")
        arrays = {name: getattr(self, name) for name in names} | {f"history_{k}": v for k, v in self.history_.items()}
        arrays |= {"subspace": self._subspace.features} | self._seen.to_arrays()
        arrays |= ids_to_array("row", self._rows.ids) | ids_to_array("col", self._cols.ids)
        if hasattr(self, "feature_names_in_"):
            arrays["feature_names"] = np.asarray(self.feature_names_in_, dtype=str)
        stream: Stream | None = getattr(self, "_stream", None)
        arrays |= {} if stream is None else stream.to_arrays()
        facts = {name: getattr(self, name) for name in ("outcome_", "converged_", "n_iter_", "rank_", "n_features_in_")}
        facts["certificate"] = asdict(self.certificate_)
        facts["mean_count"], facts["C"] = self._subspace.mean_count, float(self._subspace.C)
        facts["classes"] = None if self.classes_ is None else self.classes_.tolist()
        return arrays, facts

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = cls(**_from_plain(params))
        check_settings(model.n_threads, model.loss)
        model.classes_ = _classes_of(facts["classes"], model.loss)
        model.row_factors_ = parts.floats(arrays, "row_factors_", None, None)
        rows, rank = model.row_factors_.shape
        model.col_factors_ = parts.floats(arrays, "col_factors_", None, rank)
        shape = rows, len(model.col_factors_)
        if min(*shape, rank) < 1:
            raise ValueError("row_factors_")
        model._rows = _labels("row", rows, ids_from_array("row", arrays))
        model._cols = _labels("column", shape[1], ids_from_array("col", arrays))
        model._box = as_box(model.bounds, shape)
        model._subspace = Subspace(
            parts.floats(arrays, "subspace", shape[1], rank),
            cls._C_of(params, facts),
            parts.number(params, "weighting", least=-100.0, most=100.0),
            parts.number(facts, "mean_count", least=np.finfo(float).tiny),
            model._box,
        )
        model._seen = FittedSamples.from_arrays(arrays, shape)
        model._known = Known.from_arrays(arrays, shape)
        if (stream := Stream.from_arrays(arrays)) is not None:
            model._stream = stream
        model.certificate_ = certificate_of(facts)
        model._rounding = parts.number({"rounding": model.certificate_.rounding}, "rounding", least=0.0)
        model.history_ = history_of(arrays)
        known = facts_of_fit(facts) | {"rank_": parts.whole(facts, "rank_", most=rank)}
        known["n_features_in_"] = parts.whole(facts, "n_features_in_", shape[1], shape[1])
        for name, value in known.items():
            setattr(model, name, value)
        if "feature_names" in arrays:
            model.feature_names_in_ = parts.words(arrays, "feature_names", shape[1])
        return model

    @staticmethod
    def _C_of(params: Facts, facts: Facts) -> float:
        """The C of the fit; files from before it could be found by the fit itself have it among the parameters only."""
        return parts.number(facts if "C" in facts else params, "C", least=LEAST, most=LARGEST)

    def save(self, path: str | os.PathLike[str], known: ObservedMatrix | None = None) -> None:
        """Write the model to a file that `rslm.load` reads: arrays and JSON, no pickle.

        Parameters
        ----------
        path : path
            It appears whole or not at all; what was there is replaced.
        known : ObservedMatrix of the shape that `fit` was given, optional
            Its entries are what the loaded model's `recommend` leaves out.
        """
        check_is_fitted(self)
        if known is not None:
            self._check_known(known)
        save(self, path, {} if known is None else Known.of(known).to_arrays())

    # ---- checking --------------------------------------------------------------------------------------------------

    def _observed(self, X: Any, *, fitting: bool) -> ObservedMatrix:
        if hasattr(X, "map_partitions") or hasattr(X, "cluster"):
            raise TypeError(
                f"{type(X).__name__} is on the workers of a cluster; give its client too: fit(X, client=client)"
            )
        if isinstance(X, str | os.PathLike):
            X = ObservedMatrix.read(X)
        if isinstance(X, ObservedMatrix):
            if fitting:
                self.n_features_in_ = X.shape[1]
                self.__dict__.pop("feature_names_in_", None)
            elif X.shape[1] != self.n_features_in_:
                raise ValueError(f"X has {X.shape[1]} features, but fit was given {self.n_features_in_}")
            elif X.col_ids is not None and not self._cols.same(X.col_ids):
                raise ValueError("X has other column ids than fit was given, or in another order")
            return X
        checked = checked_data(
            self,
            X,
            reset=fitting,
            accept_sparse=True,
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            ensure_min_samples=1,
        )
        if hasattr(X, "columns"):
            return ObservedMatrix.from_any(X, allow_empty=not fitting)  # keeps the ids
        return ObservedMatrix.from_any(checked, allow_empty=not fitting)

    def _checked_loss(self) -> Loss:
        return as_loss(self.loss)

    def _limit(self, shape: tuple[int, int]) -> int:
        """The limit on the rank: what was given, right or wrong, or what suits a matrix of this shape."""
        return min(USUAL_RANK, *shape) if self.rank is None else self.rank

    def _check_weighting(self) -> None:
        if not np.isfinite(as_float(self.weighting)):
            raise ValueError(f"weighting must be a finite number, 0 for the plain trace norm; got {self.weighting!r}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the input features.

        Parameters
        ----------
        input_features : sequence of str, optional
            The names where `fit` has seen none; else they must be those that it has seen.
        """
        from sklearn.utils.validation import _check_feature_names_in

        check_is_fitted(self)
        return _check_feature_names_in(self, input_features)


def _labels(kind: str, count: int, ids: NDArray[Any] | None) -> Labels:
    if ids is not None and len(ids) != count:
        raise ValueError(f"{kind}_ids")
    return Labels(kind, count, ids)


def _classes_of(plain: Any, loss: Any) -> NDArray[Any] | None:
    """The two classes of a loss that has some; of a user's own loss it is not known whether it has."""
    classes = None if plain is None else np.array(plain)
    own = isinstance(loss, str) and loss.startswith(OWN)
    if (classes is not None and (classes.shape != (2,) or classes.dtype.kind not in "fiubU")) or (
        not own and as_loss(loss).binary != (classes is not None)
    ):
        raise ValueError("classes")
    return classes


def _from_plain(params: Facts) -> Facts:
    """Constructor parameters as they were before they were written."""
    read = {"loss": loss_from_plain, "bounds": from_plain}
    return {name: read[name](value) if name in read else value for name, value in params.items()}
