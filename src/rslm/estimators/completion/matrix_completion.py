"""Complete a matrix from some of its entries."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any, Self

import numpy as np

from rslm.data import ObservedMatrix, as_generator
from rslm.estimators.automatic.held_out_again import held_out_again
from rslm.estimators.automatic.resumable import SearchCheckpoint
from rslm.estimators.automatic.sample import ENTRIES, sampled_rows
from rslm.estimators.callbacks import Reporter
from rslm.estimators.choices import as_loss, is_auto, needs_distributed
from rslm.estimators.completion import found_file
from rslm.estimators.completion.asked import Asked, may_have_units, ridges_of, standardised, units_of
from rslm.estimators.completion.averaging import Averaging, check_average
from rslm.estimators.completion.bounds import as_box
from rslm.estimators.completion.completion import rank_limit
from rslm.estimators.completion.distributed_layout import DistributedLayout
from rslm.estimators.completion.finding import NO_FACTORS, Chosen, Finder, search_settings
from rslm.estimators.completion.fold_in import Subspace
from rslm.estimators.completion.intervals import Intervals
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.observed_input import on_cluster
from rslm.estimators.defaults import SAMPLE, loss_for, usual_C
from rslm.estimators.persistence import storable
from rslm.estimators.scikit_learn import with_callbacks
from rslm.estimators.warn import warn_caller
from rslm.losses import Loss
from rslm.runtime.interrupts import Interrupt
from rslm.runtime.threads import thread_count
from rslm.solvers import Result
from rslm.solvers.loop import Callback
from rslm.solvers.stopping import check_max_time, check_tol, time_left
from rslm.storage.container import Arrays, Facts
from rslm.structures import Box

SEARCHING = 0.6  # share of max_time for finding settings
SOLVING = 0.5  # share of the rest for the solver, if draws follow


@storable
class MatrixCompletion(Averaging):
    """Low-rank matrix completion with a certificate of optimality.

    Learns a mean μ, row effects b, column effects c and a matrix W of rank at most `rank` that minimise
    ``C Σ loss(x_ij, μ + b_i + c_j + w_ij) + ½ ‖W‖_*² + ridges`` over the observed entries of X, where ‖W‖_* is the
    trace norm, the sum of the singular values. Settings that are "auto" are chosen by their errors on held-out entries;
    the model is then fitted to all entries.

    With numbers for `rank` and `C`, ``effects=None`` and ``weighting=0`` there is one fit, of
    ``C Σ loss(x_ij, w_ij) + ½ ‖W‖_*²``.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Maximum rank of W, at most the smaller side of X. "auto" is the rank with the smallest held-out error; 0 if W
        does not help.
    C : float or "auto", default="auto"
        Weight of the loss, a sum over the observed entries, relative to the trace norm. A larger C fits more closely.
    loss : str or Loss, default="square"
        "square", "absolute", "epsilon_insensitive", "huber", "quantile" for real numbers, "logistic", "hinge",
        "squared_hinge" for two classes (booleans, 0 and 1, or −1 and 1), or an instance with parameters, such as
        ``rslm.losses.Huber(0.5)``. The widths of "huber" and "epsilon_insensitive" follow from the spread of the data;
        a number sets them, as in "huber:0.5". A loss with kinks (absolute, ε-insensitive, quantile, hinge) is solved in
        a rounded form; the certificate is for the loss itself and states the rounding.
    bounds : (lower, upper), Box or None
        Bounds of all predictions, effects included, not only of the observed entries: ``(0, None)`` for a non-negative
        matrix, ``(1, 5)`` for ratings. Each is a number, an array with one number for every feature, an array of shape
        (n_samples, 1) or (n_samples, n_features), or None. Observed values beyond the bounds are fitted as well as the
        bounds allow, with a warning; ``rslm.structures.Box(lower, upper, strict=True)`` makes them an error.
    effects : "auto", (row_ridge, col_ridge) or None, default="auto"
        The mean and the effects of rows and columns that are added to W. A ridge is a number of observations: a row
        with that many entries is shrunk half-way to the mean; None in its place leaves these effects out. "auto"
        estimates both from the variances between and within rows and columns. None for no location at all: then W is
        shrunk towards zero.
    weighting : float or "auto", default="auto"
        Exponent α of the weighted trace norm: rows and columns with n observed entries are weighted by n^α, relative
        to the average. 0 is the plain trace norm; 0.5 often predicts better if some rows have many more entries.
        "auto" compares both, or is 0 if C is given.
    average : int, optional
        Number of posterior draws after the fit, for example 100; only for the square loss without bounds.
        Predictions are then the means over the draws, which are usually more accurate, and `predict_spread` is their
        standard deviation. `row_factors_` and `col_factors_` then have `average` times as many columns, and the file of
        the model grows accordingly. Factors, effects, their normal priors and the variance of the noise are drawn by
        Gibbs sampling; `sample_weight` is the inverse of the noise variance, up to a factor. Each draw takes about as
        long as two evaluations of the objective. Certificate, history, rank_ and `certify` belong to the fitted matrix.
    scale : bool or "auto", default="auto"
        Whether features are divided by their standard deviations before solving, as a table of different units needs;
        predictions are in the units of X. "auto" does so if there are effects and the spreads of the features differ
        by more than a factor of 10, or one of them is more than 10 times, or less than a hundredth of, the median. For
        a small matrix it also tries to divide features by the standard deviations of their noise, and keeps the scaling
        with the smaller held-out error.
    add_indicator, keep_empty_features : bool, default=False and True
        What `transform` returns, as scikit-learn's imputers do: whether it adds a column of 0 and 1 for every feature
        with missing entries, and whether it keeps features that had no entry in `fit`.
    solver : {"trust-region", "conjugate-gradient"}, default="trust-region"
        The first uses second derivatives and needs few iterations; the second needs more of them, each cheaper.
    max_iter : int, default=1000
        Maximum number of outer iterations, including those of continuation stages.
    tol : float, default=1e-6
        The fit has converged when the relative gradient is at most `tol`, and is certified when the relative duality
        gap is at most `tol`.
    max_time : float, optional
        Seconds after which the fit stops and keeps the best answer so far. `fit` returns within two more seconds, as it
        does after Ctrl-C. The answer satisfies the bounds; if there was no time for a certificate, it says so. A search
        for settings that was cut short is a ConvergenceWarning.
    warm_start : bool, default=False
        Whether `fit` starts from the subspace that the last `fit` or `partial_fit` has found, if the rank is the same.
        Features are matched by their ids, and new ones start at 0; without ids, their number must be the same.
    random_state : int, RandomState, Generator or None
        Seed of the start.
    n_threads : int, optional
        Threads to use, all cores if None. The answer does not depend on it.
    verbose : int, default=0
        1 logs every iteration to the logger "rslm"; see the guide for notebooks.

    Attributes
    ----------
    row_factors_, col_factors_ : arrays (n_samples, rank) and (n_features, rank)
        W = row_factors_ @ col_factors_.T. They may have more columns than `rank_`, which does not count those that
        are 0 up to rounding; features in units of their own add one, and `average` multiplies them.
    intercept_, row_effects_, col_effects_ : float, arrays (n_samples,) and (n_features,)
        A prediction is intercept_ + row_effects_[i] + col_effects_[j] + W[i, j]. A row without an observed entry is
        predicted by the other terms. Without effects, rows and columns without an entry have the average factor.
    loss_ : Loss
        The loss that was used, with its parameters.
    C_, weighting_ : float
        The settings that were used.
    path_ : dict of arrays, or None
        rank, C, weighting, row_effects (1 where rows had effects), ridges (the factor of the first ridges of the
        effects), noise_units (1 where features were divided by the size of their noise), error and seconds of all
        settings that were tried. An error is that of held-out entries: the root mean square for the square loss, else
        the mean loss. None if there was nothing to find.
    held_out_ : dict or None
        Errors on held-out entries: of the "mean", of "effects" alone, and of the "model" with the settings found. If
        features were standardised, errors are in standard deviations, and "mean" is the mean of each feature.
    certificate_ : Certificate
        The objective and a lower bound on the objective of any matrix; ``print(model.certificate_)`` says what they
        mean.
    history_ : dict of arrays
        objective, gradient_norm, relative_gradient, seconds, evaluations, hessian_products and C after every iteration,
        and `relaxations`, what was relaxed at that iteration: the solver warm-starts from smaller C, from the square
        loss and rounded kinks, from no bounds and soft bounds.
    outcome_ : str
        Why the solver ended: certified, stationary, iterations, time, stalled, interrupted or failed.
    converged_ : bool
        Whether that means convergence.
    n_iter_ : int
        Number of outer iterations, including those of continuation stages.
    rank_ : int
        The rank of W, which may be below the limit; 0 if effects alone predict held-out entries as well.
    n_draws_, noise_ : int, float
        With `average`: the number of draws, smaller if the fit was stopped, and the standard deviation of the noise.
    residuals_ : ObservedMatrix
        Residuals of the observed entries: x minus its prediction; with the logistic loss, 0 or 1 minus the probability
        of 1; with the hinge losses, the distance to a margin of 1. ``.to_dense()`` is an array with NaN
        at missing entries. A model that was loaded from a file, or fitted by a cluster, has none.
    outlier_scores_ : ObservedMatrix
        |residuals_| relative to a robust scale, 1.4826 times their median (of the nonzero ones, if most are 0): large
        for entries that a robust loss has ignored. If features were standardised, so are the residuals.
    classes_ : array of two, or None
        The values of the two classes, for a loss of two classes.
    n_features_in_, feature_names_in_ : int and array
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from rslm import MatrixCompletion
    >>> X = np.outer([1.0, 2, 3, 4], [1.0, 2, 3])
    >>> X[3, 2] = np.nan
    >>> model = MatrixCompletion(rank=1, C=1e4, effects=None).fit(X)
    >>> model.predict([3], [2]).round(2)
    array([12.])
    """

    def __init__(
        self,
        rank: int | str | None = "auto",
        C: float | str = "auto",
        *,
        loss: str | Loss = "square",
        effects: Any = "auto",
        bounds: Any = None,
        weighting: float | str = "auto",
        average: int | None = None,
        scale: bool | str = "auto",
        add_indicator: bool = False,
        keep_empty_features: bool = True,
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
        self.effects = effects
        self.bounds = bounds
        self.weighting = weighting
        self.average = average
        self.scale = scale
        self.add_indicator = add_indicator
        self.keep_empty_features = keep_empty_features
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: object = None,
        sample_weight: Any = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        client: Any = None,
    ) -> Self:
        """Learn the factors from the observed entries of X.

        Parameters
        ----------
        X : array, DataFrame, scipy.sparse matrix or ObservedMatrix of shape (n_samples, n_features), or a path
            NaN is missing in dense input; stored entries of sparse input are observed, zeros included. A file is read
            by `ObservedMatrix.read`; a folder holds prepared data.
        y : ignored
        sample_weight : numbers ≥ 0, optional
            Weights that multiply the losses of the observed entries: an entry of weight 2 counts twice, one of weight 0
            is left out. An array or DataFrame of the shape of X, a scipy.sparse matrix with one weight for
            every observed entry, an array with one number for every observed entry, row by row, or one for every
            sample; the name of a column, if X is the path of a table or a Dask DataFrame. If the entries of X were
            given in another order than row by row, use `weights` of `ObservedMatrix.from_ratings`. Not where X has
            weights of its own: an ObservedMatrix, or prepared data.
        checkpoint : path, optional
            A file that is written from time to time during the fit. After an interruption of any kind, the same `fit`
            continues from it to bitwise the same answer; a `fit` that has converged returns at once. It also continues
            a search for settings, with the seed of the search in the file. `history_` includes the time before the
            interruption, `max_time` does not. A file of other data or settings is refused;
            `max_iter`, `max_time`, `n_threads` and `verbose` may differ.
        client : distributed.Client, optional
            The client of a Dask cluster, whose workers hold blocks of samples and solve for them. X may then also be a
            folder of prepared data, a Parquet file or a folder of them, on storage that all workers see, or a Dask
            DataFrame with one entry per line. Settings that are "auto" are found in this process: from all entries, as
            without a client, or, if there are more than 2 million, from a random sample of whole rows of that size,
            with a correction of C for the number of rows. Features are not standardised. With the same settings the
            answer is the same; it has no `residuals_`.
        """
        began = time.perf_counter()
        asked = Asked.of(self.rank, self.C, self.weighting)
        check_average(self.average, as_loss(self.loss), self.bounds, client)
        layout, start = self._layout(X, client, sample_weight, asked), None
        self._warn_of_beyond(layout)
        self._warn_of_equal(X, layout)
        check_max_time(self.max_time)
        check_tol(self.tol)
        self._stream = None
        self._in_deviations = layout.units is not None
        with self._solving() as interrupt:
            reporter = Reporter(self, X, several=asked.searches)
            chosen = self._chosen(layout, asked, interrupt, began, reporter, checkpoint)
            layout, rank, start = chosen.layout, chosen.rank, chosen.start
            self.path_, self.held_out_, self._intervals = chosen.path, chosen.held_out, chosen.intervals
            if self.warm_start and (basis := self._learned_basis(layout.data, rank)) is not None:
                layout = replace(layout, left="features")
                start = layout.start(basis)
            limit = 1 if rank == 0 and not asked.fixed else rank  # 0 was found; the solver refuses one that was given
            # A search that was stopped goes on in the same call later, which may find other settings.
            file = checkpoint if chosen.complete else None
            left = time_left(self.max_time, began)
            left = left if left is None or self.average is None else SOLVING * left

            def then(result: Result) -> None:
                self._keep_settings(layout, rank)
                if self.average is not None:
                    self._average(layout, result, interrupt, time_left(self.max_time, began), reporter)

            self._fit(X, layout, limit, start, left, file, reporter, then)
        if not chosen.complete:
            self._warn_of_unfinished_search(chosen.path)
        return self

    def _chosen(
        self,
        layout: Layout,
        asked: Asked,
        interrupt: Interrupt,
        began: float,
        reporter: Reporter,
        checkpoint: str | os.PathLike[str] | None,
    ) -> Chosen:
        """The settings that were given, or else those that are found by held-out entries."""
        rank = rank_limit(asked.rank, layout.data.shape)
        if not asked.searches:
            return Chosen(layout, rank)
        if layout.loss.binary and layout.one_class:  # the mean predicts them all, and nothing can be compared
            alone = not asked.fixed and layout.ridges is not None
            return Chosen(replace(layout, C=NO_FACTORS * layout.C), 0) if alone else Chosen(layout, rank)
        seed = int(as_generator(self.random_state).integers(2**31))

        def file() -> SearchCheckpoint:
            assert checkpoint is not None
            settings = search_settings(layout, asked, rank, self.solver, self.tol, self.random_state)
            return SearchCheckpoint(checkpoint, settings, seed)

        def callback(at: Layout) -> Callback | None:
            # A model of a sample of rows is not one of the data.
            return reporter.callback(lambda now: (at.at(now) if layout.at_hand else {}) | {"_trying": True}, at.scale)

        limit = None if self.max_time is None else SEARCHING * self.max_time
        threads, free_effects = thread_count(self.n_threads), is_auto(self.effects)
        located, bounded = layout.ridges is not None, layout.box is not None
        free_units = layout.at_hand and may_have_units(self.scale, layout.loss, located, bounded)
        finder = Finder(
            asked,
            rank,
            seed,
            threads,
            interrupt,
            limit,
            began,
            callback,
            free_effects=free_effects,
            free_units=free_units,
        )
        return finder.chosen(layout, None if checkpoint is None else file)

    def _held_out_again(self) -> Intervals:
        if not hasattr(self, "residuals_") or self._stream is not None:
            return super()._held_out_again()
        layout = replace(self._fitted_layout(), left="features")
        start, rank = self._learned_start(layout)
        seed, threads = int(as_generator(self.random_state).integers(2**31)), thread_count(self.n_threads)
        with self._solving() as interrupt:
            found = held_out_again(layout, rank if self.rank_ else 0, start, seed, threads, interrupt)
        return super()._held_out_again() if found is None else found

    def _keep_settings(self, layout: Layout, rank: int) -> None:
        self.C_, self.weighting_ = float(layout.C), float(layout.weighting)
        if rank == 0:  # the fit has shrunk W to almost nothing; effects alone are the answer
            self.row_factors_[:], self.col_factors_[:], self.rank_ = 0.0, 0.0, 0
            self._subspace = replace(self._subspace, features=np.zeros_like(self._subspace.features))
            if layout.at_hand:
                self.residuals_ = self._residuals(layout.data)

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        of_search = found_file.written(self)
        return arrays | of_search[0], facts | of_search[1]

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        # Models of older versions have no effects.
        model = super()._from_file({"effects": None, "scale": False} | params, arrays, facts)
        model.C_, model.weighting_ = model._subspace.C, model._subspace.weighting
        found_file.read(model, arrays, facts)
        return model

    def _learned_basis(self, data: Any, rank: int) -> Any:
        """The subspace of the last fit, if it suits these data; features are matched by their ids, new ones are 0."""
        subspace: Subspace | None = getattr(self, "_subspace", None)
        if subspace is None:
            return None
        basis = subspace.features
        if self._cols.ids is not None and data.col_ids is not None:
            places = self._cols.places(data.col_ids)
            basis = np.where((places >= 0)[:, None], basis[places], 0.0)
        return basis if basis.shape == (data.shape[1], rank) and basis.any() else None

    def _layout(self, X: Any, client: Any, sample_weight: Any, asked: Asked) -> Layout:
        if client is None:
            data = self._observed(X, fitting=True, sample_weight=sample_weight)
            return self._layout_of(data, as_box(self.bounds, data.shape, data.col_ids), asked)
        if self.scale and not is_auto(self.scale):
            raise ValueError(
                f"workers do not standardise features, as scale={self.scale!r} asks for; divide the features by their "
                "standard deviations first, with scale=False"
            )
        matrix = self._distributed(X, client, sample_weight)
        loss = loss_for(self.loss, lambda: matrix.measurement().sample(SAMPLE))
        return self._distributed_layout(matrix, loss, as_box(self.bounds, matrix.shape, matrix.col_ids), asked)

    def _layout_of(self, data: ObservedMatrix, box: Box | None, asked: Asked) -> Layout:
        """The layout of entries in this process, with usual values of what is to be found."""
        kind = as_loss(self.loss)
        units = units_of(self.scale, data, kind, self.effects is not None, box is not None)
        values = standardised(data, units, kind)
        loss = loss_for(self.loss, lambda: values, data.weights)
        ridges = ridges_of(self.effects, data, loss, units)
        C = usual_C(data.shape, values, loss) if asked.C is None else asked.C
        return Layout(data, loss, C, asked.weighting or 0.0, box, ridges=ridges, units=units)

    def _distributed_layout(self, matrix: Any, loss: Loss, box: Box | None, asked: Asked) -> DistributedLayout:
        """The layout of entries on workers; what is "auto" is found from a sample of the rows in this process."""
        weighting = asked.weighting or 0.0
        if not asked.searches and not is_auto(self.effects):
            assert asked.C is not None
            return DistributedLayout(
                matrix, loss, asked.C, weighting, box, ridges=ridges_of(self.effects, matrix, loss, None)
            )
        rows = sampled_rows(matrix.row_counts(), ENTRIES)
        data = matrix.some_rows(rows)
        if units_of(self.scale, data, loss, self.effects is not None, box is not None) is not None:
            warn_caller(
                "the features have very different standard deviations, as if in other units, but workers do not "
                "standardise features; divide them by their standard deviations first"
            )
        ridges = ridges_of(self.effects, data, loss, None)
        own = None if box is None else box.part(rows)
        C = [usual_C(shape, data.values, loss) if asked.C is None else asked.C for shape in (data.shape, matrix.shape)]
        sample = Layout(data, loss, C[0], weighting, own, ridges=ridges)
        return DistributedLayout(matrix, loss, C[1], weighting, box, ridges=ridges, sample=sample)

    def _distributed(self, X: Any, client: Any, sample_weight: Any) -> Any:
        needs_distributed()
        from rslm.distributed import distribute

        if not (isinstance(X, str | os.PathLike) or on_cluster(X)):
            return distribute(self._observed(X, fitting=True, sample_weight=sample_weight), client)
        if not isinstance(sample_weight, str | None):
            raise TypeError(
                f"sample_weight is a {type(sample_weight).__name__}, but workers read these data themselves; name the "
                "column of the weights, or prepare the data with weights"
            )
        data = distribute(X, client, weights=sample_weight)
        self._set_n_features(data.shape[1])
        return data
