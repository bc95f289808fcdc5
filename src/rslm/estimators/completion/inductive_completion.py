"""Complete a matrix whose rows and columns are described by features."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from rslm.data import Labels, ObservedMatrix, as_generator, parts
from rslm.estimators.automatic.inductive_search import USUAL_WEIGHT, InductiveSearch, inductive_folds
from rslm.estimators.automatic.search import stop_when
from rslm.estimators.callbacks import Reporter
from rslm.estimators.choices import AUTO, has_probabilities, is_auto
from rslm.estimators.completion import found_file
from rslm.estimators.completion.asked import Asked, ridges_of
from rslm.estimators.completion.completion import Completion, rank_limit
from rslm.estimators.completion.finding import NO_FACTORS
from rslm.estimators.completion.inductive_layout import InductiveLayout, InductiveSubspace
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.matrix_completion import SEARCHING
from rslm.estimators.completion.side_features import Encoding, as_features
from rslm.estimators.defaults import loss_for, usual_C
from rslm.estimators.persistence import storable
from rslm.estimators.scikit_learn import with_callbacks
from rslm.estimators.warn import warn_caller
from rslm.losses import Loss
from rslm.runtime.interrupts import Interrupt
from rslm.runtime.magnitudes import LARGEST, LEAST, as_float
from rslm.runtime.threads import thread_count
from rslm.runtime.types import Floats
from rslm.solvers.stopping import check_max_time, check_tol, time_left
from rslm.storage.container import Arrays, Facts


@storable
class InductiveCompletion(Completion):
    """Low-rank matrix completion with features of the rows and of the columns.

    Entry (i, j) is predicted by μ + ãᵢᵀ W b̃ⱼ. The row ãᵢ holds a constant, the features of row i and, for the
    completion term, an indicator of the row itself; b̃ⱼ likewise. W is of rank at most `rank` and minimises, with the
    mean μ, ``C Σ loss(x_ij, μ + ãᵢᵀ W b̃ⱼ) + ½ ‖W‖_*²``. Effects of features are learned from all rows that share them,
    so rows and columns without a single observed entry are predicted by their features.

    What is "auto" is found from the data, as by `MatrixCompletion`. Where X has rows or columns without any entry that
    have features, whole ones are held out too, because such ones will be predicted.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Maximum rank of W. "auto" is a rank that predicts held-out entries best; 0 if mean, row effects and column
        effects alone, without features, predict as well.
    C : float or "auto", default="auto"
        Weight of the loss, a sum over the observed entries, against the trace norm. Larger fits the data more closely.
    completion : bool, default=True
        Whether rows and columns have coefficients of their own, as in plain completion, in addition to those of their
        features.
    feature_weight : float or "auto", default="auto"
        Size of the features relative to the constant and the indicators, which are 1: the features of a side are
        scaled so that this is the root mean square length of their rows. Larger trusts them more. Bring features of
        different units to one scale first. "auto" is found, or is 0.2 where C and rank are given.
    effects : "auto" or None, default="auto"
        Whether there is a mean, which is not penalised, and a constant feature on both sides, with which every row and
        column has an effect, a part of W.
    loss : str or Loss, default="square"
        As in `MatrixCompletion`: "square", "absolute", "huber", "logistic", "hinge" …, or an instance of a loss.
    weighting : float or "auto", default="auto"
        As in `MatrixCompletion`, for the indicators.
    warm_start : bool, default=False
        Whether `fit` starts from the subspace that the last `fit` has found, for instance on a path of growing C.
    solver, max_iter, tol, max_time, random_state, n_threads, verbose
        As in `MatrixCompletion`.

    Attributes
    ----------
    row_factors_, col_factors_ : arrays (n_samples, rank) and (n_features, rank)
        The matrix is intercept_ + row_factors_ @ col_factors_.T, features, indicators and effects together.
    intercept_, row_effects_, col_effects_ : float and arrays
        The mean, and the effects where `rank_` is 0; else effects are a part of the factors, and these are 0.
    loss_ : Loss
        The loss that was used, with its parameters.
    C_, weighting_, feature_weight_ : float
        The settings that were used.
    path_ : dict of arrays, or None
        rank, C, weighting, feature_weight, error and seconds of all settings that were tried, as in `MatrixCompletion`.
    held_out_ : dict or None
        The errors of held-out entries: of the "mean", of "effects" alone, and of the "model" with the found settings.
    certificate_, history_, outcome_, converged_, n_iter_, rank_, residuals_, outlier_scores_, classes_
        As in `MatrixCompletion`.

    Examples
    --------
    >>> import numpy as np
    >>> from rslm import InductiveCompletion
    >>> rng = np.random.default_rng(0)
    >>> A, B = rng.standard_normal((40, 3)), rng.standard_normal((30, 2))
    >>> X = A @ rng.standard_normal((3, 2)) @ B.T
    >>> seen = np.where(rng.random(X.shape) < 0.5, X, np.nan)
    >>> seen[7] = np.nan  # of row 7 only the features are known
    >>> model = InductiveCompletion(rank=2, C=1e3, completion=False, random_state=0)
    >>> model = model.fit(seen, row_features=A, column_features=B)
    >>> bool(np.abs(model.predict(np.full(30, 7), np.arange(30)) - X[7]).max() < 0.05)
    True
    """

    _subspace: InductiveSubspace
    _encodings: tuple[Encoding, Encoding]
    _coefs: tuple[Floats, Floats]  # of the features of rows and columns
    _bases: Floats  # row factors predicted from the features
    _last: Floats | None = None  # U of the last fit, for warm starts

    def __init__(
        self,
        rank: int | str | None = "auto",
        C: float | str = "auto",
        *,
        completion: bool = True,
        feature_weight: float | str = "auto",
        effects: str | None = "auto",
        loss: str | Loss = "square",
        weighting: float | str = "auto",
        warm_start: bool = False,
        solver: str = "trust-region",
        max_iter: int = 1000,
        tol: float = 1e-6,
        max_time: float | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.C = C
        self.completion = completion
        self.feature_weight = feature_weight
        self.effects = effects
        self.loss = loss
        self.weighting = weighting
        self.warm_start = warm_start
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
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
        row_features: Any = None,
        column_features: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn from the observed entries of X and the features of its rows and columns.

        Parameters
        ----------
        X : array, DataFrame, scipy.sparse matrix or ObservedMatrix of shape (n_samples, n_features)
            NaN is missing in dense input; stored entries of sparse input are observed, zeros included.
        y : ignored
        sample_weight : numbers ≥ 0, optional
            Weights of the entries, as in `MatrixCompletion.fit`.
        row_features : array, DataFrame or scipy.sparse matrix with a row for every row of X, optional
            Numbers; encode categories first. Where X has ids, a DataFrame is looked up by its index.
        column_features : the same with a row for every column of X, optional
        checkpoint : path, optional
            As in `MatrixCompletion.fit`.
        """
        began = time.perf_counter()
        asked = Asked.of(self.rank, self.C, self.weighting)
        layout = self._layout(X, sample_weight, asked, row_features, column_features)
        check_max_time(self.max_time)
        check_tol(self.tol)
        reporter = Reporter(self, X, several=asked.searches)
        with self._solving() as interrupt:
            layout, rank, start, complete = self._chosen(layout, asked, interrupt, began, reporter)
            left = time_left(self.max_time, began)
            if rank == 0 and not asked.fixed:
                self._fit_effects(X, layout, left, reporter)
            else:
                start = self._last if self.warm_start and self._last is not None else start
                self._last = self._fit(X, layout, rank, start, left, checkpoint, reporter).U
        self.C_, self.weighting_ = float(layout.C), float(layout.weighting)
        self.feature_weight_ = float(layout.feature_weight)
        if not complete:
            self._warn_of_unfinished_search(self.path_)
        return self

    def _layout(
        self, X: Any, sample_weight: Any, asked: Asked, row_features: Any, column_features: Any
    ) -> InductiveLayout:
        """The layout with the settings that were given, and usual ones in place of others."""
        data = self._observed(X, fitting=True, sample_weight=sample_weight)
        weight, located = self._checked_feature_weight(), self._checked_effects()
        loss = loss_for(self.loss, lambda: data.values, data.weights)
        of_rows = as_features("row_features", row_features, data.shape[0], data.row_ids)
        of_columns = as_features("column_features", column_features, data.shape[1], data.col_ids)
        encodings = (
            Encoding.of("row", row_features, of_rows, 1.0, located),
            Encoding.of("column", column_features, of_columns, 1.0, located),
        )
        lacking = [e.kind for e in encodings if e.width == 0]
        if lacking and not self.completion:
            raise ValueError(f"completion=False needs {lacking[0]}_features, or effects='auto'")
        layout = InductiveLayout(
            data,
            loss,
            usual_C(data.shape, data.values, loss) if asked.C is None else asked.C,
            asked.weighting or 0.0,
            features=(of_rows, of_columns),
            encodings=encodings,
            feature_weight=USUAL_WEIGHT if weight is None else weight,
            completion=bool(self.completion),
            mean=located,
        )
        largest = min(side.width for side in layout.sides)
        if isinstance(self.rank, int) and self.rank > largest:
            raise ValueError(
                f"rank is {self.rank}, but the smaller side has {largest} features, the constant and the indicators of "
                "rows or columns included; lower the rank"
            )
        return layout

    def _chosen(
        self, layout: InductiveLayout, asked: Asked, interrupt: Interrupt, began: float, reporter: Reporter
    ) -> tuple[InductiveLayout, int, Floats | None, bool]:
        """The layout with all settings, the limit on the rank, where to start, and whether the search has ended."""
        self.path_, self.held_out_, self._intervals = None, None, None
        shape = layout.sides[0].width, layout.sides[1].width
        rank = rank_limit(asked.rank, shape)
        if not asked.searches:
            return layout, rank, None, True
        if layout.loss.binary and layout.one_class:  # the mean predicts them all, and nothing can be compared
            return layout, rank if asked.fixed or not layout.mean else 0, None, True
        seed = int(as_generator(self.random_state).integers(2**31))
        of_rows, of_columns = layout.encodings
        described = of_rows.given is not None, of_columns.given is not None
        folds = inductive_folds(layout.data, described, np.random.default_rng(seed))
        if not folds:
            return layout, rank, None, True
        limit = None if self.max_time is None else SEARCHING * self.max_time
        ridges = ridges_of(AUTO, layout.data, layout.loss, None)
        assert ridges is not None
        stopped = stop_when(interrupt, limit, began)
        search = InductiveSearch(
            layout,
            folds,
            ridges=ridges,
            weighs=is_auto(self.feature_weight) and any(described),
            rank=rank if asked.fixed else None,
            C=asked.C,
            weighting=asked.weighting if asked.C is None else layout.weighting,
            largest_rank=min(shape),
            n_threads=thread_count(self.n_threads),
            seed=seed,
            stopped=stopped,
            callback=lambda at: reporter.callback(lambda now: at.at(now) | {"_trying": True}, at.scale),
            interrupt=interrupt,
        )
        with interrupt.within(limit, began):
            found = search.run()
        if found is None:
            return layout, rank, None, False
        self.path_ = found.path.table()
        self.held_out_ = {"mean": found.of_mean, "effects": found.of_effects, "model": found.error}
        chosen = cast(InductiveLayout, found.setting.applied(layout, None))
        self._intervals = found.intervals
        if found.alone:
            self.held_out_["model"] = found.of_effects
            return chosen, 0, None, not stopped()
        return chosen, found.setting.rank, found.start, not stopped()

    def _fit_effects(self, X: Any, layout: InductiveLayout, max_time: float | None, reporter: Reporter) -> None:
        """Mean, row effects and column effects, which predict as well as anything with features and factors."""
        data, loss = layout.data, layout.loss
        alone = Layout(data, loss, NO_FACTORS * layout.C, 0.0, ridges=ridges_of(AUTO, data, loss, None))
        of_rows, of_columns = layout.weighted_encodings
        self._encodings = of_rows, of_columns
        self._fit(X, alone, 1, None, max_time, None, reporter)
        row_factors, col_factors = (np.zeros((size, 1)) for size in data.shape)
        mean_count = float(data.row_counts().mean())
        of_features = np.zeros((self._encodings[0].width, 1)), np.zeros((self._encodings[1].width, 1))
        self._set({"row_factors_": row_factors, "col_factors_": col_factors, "rank_": 0, "_ridges": None})
        self._set({"_coefs": of_features, "_bases": row_factors.copy(), "_last": None})
        self._subspace = InductiveSubspace(col_factors.copy(), layout.C, None, mean_count, self.intercept_)
        self.residuals_ = self._residuals(data)

    def predict(
        self,
        rows: Any,
        cols: ArrayLike | None = None,
        *,
        row_features: Any = None,
        column_features: Any = None,
        unseen: str = "error",
    ) -> Floats:
        """Predict the entries (rows[k], cols[k]).

        Parameters
        ----------
        rows, cols : arrays of one length
            Positions, or ids where `fit` was given ids. Without `cols`, `rows` is a dense matrix X of samples: returns
            the model's value of all their entries.
        row_features : array, DataFrame or scipy.sparse matrix, optional
            Features of new rows. Where `fit` was given ids and this is a DataFrame, `rows` are ids: those that `fit`
            knows keep all that was learned of them, whether they are in the table or not; others are found in its index
            and predicted from their features. Otherwise `rows` are positions in this table, or labels of its index, and
            all of them are predicted from their features alone; leave it out to predict rows of `fit`.
        column_features : the same for `cols`, optional
        unseen : {"error", "mean"}
            Whether a row or column that `fit` has not seen, and whose features are not given, is an error, or predicted
            like an average one.
        """
        check_is_fitted(self)
        if cols is None:
            return self._reconstructed(self._dense_samples(rows), row_features)
        left = self._of_rows(rows, unseen) if row_features is None else self._by_table(0, rows, row_features)
        right = self._of_columns(cols, unseen) if column_features is None else self._by_table(1, cols, column_features)
        return self._entries(*left, *right)

    @available_if(has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(
        self, rows: Any, cols: ArrayLike | None = None, *, row_features: Any = None, column_features: Any = None
    ) -> Floats:
        """The probability of the second class, 1, for the entries whose decision values `predict` gives.

        Parameters
        ----------
        rows, cols, row_features, column_features : as in `predict`
        """
        decision = self.predict(rows, cols, row_features=row_features, column_features=column_features)
        return self._checked_loss().probability(decision)

    def transform(self, X: Any, *, row_features: Any = None) -> Floats:
        """Fill the missing entries of X; observed ones are kept.

        Every sample is fitted at the learned subspace, around the prediction of its features.

        Parameters
        ----------
        X : as in `fit`
            Its rows may be other samples.
        row_features : array, DataFrame or scipy.sparse matrix with a row for every row of X, optional
            If None, samples of `fit` have the features that `fit` was given, and other samples average ones.
        """
        return self._filled(X, row_features)

    def score(self, X: Any, y: object = None, sample_weight: Any = None, *, row_features: Any = None) -> float:
        """R² of the prediction on the observed entries of X; for a loss of two classes the fraction of correct ones.

        `MatrixCompletion.score` describes how X is recognised as the fitted samples or as new ones.

        Parameters
        ----------
        X : as in `fit`
        y : ignored
        sample_weight : numbers ≥ 0, optional
            As in `MatrixCompletion.score`.
        row_features : array, DataFrame or scipy.sparse matrix with a row for every row of X, optional
            If None, those that `transform` takes.
        """
        return self._scored(X, sample_weight, row_features)

    def recommend_for(
        self, X: Any, top: int = 10, *, row_features: Any = None
    ) -> tuple[list[NDArray[Any]], list[Floats]]:
        """As in `MatrixCompletion`, with the features of the samples.

        Parameters
        ----------
        X : as in `fit`
        top : int, default=10
        row_features : array, DataFrame or scipy.sparse matrix with a row for every row of X, optional
            If None, those that `transform` takes.
        """
        return self._recommended_for(X, top, row_features)

    def _folded(self, data: ObservedMatrix, row_features: Any = None) -> tuple[Floats, Floats]:
        bases, threads = self._bases_of(data, row_features), thread_count(self.n_threads)
        factors = self._subspace.fold_in(data, bases, self._solved_loss(), threads)
        if self._encodings[0].width == 0:  # samples with neither entries nor features
            factors[data.row_counts() == 0] = self.row_factors_.mean(axis=0)
        known = self._fitted_rows(data) if row_features is None else None
        effects = np.zeros(len(factors)) if known is None else self.row_effects_[known]
        return np.column_stack([factors, effects, np.ones(len(factors))]), self._right

    def _left_out(self, data: ObservedMatrix, row_features: Any) -> Floats:
        bases, threads = self._bases_of(data, row_features), thread_count(self.n_threads)
        found = self._subspace.left_out(data, bases, self._solved_loss(), threads)
        return np.asarray(found + self.col_effects_[data.index])

    def _bases_of(self, data: ObservedMatrix, row_features: Any) -> Floats:
        """The factors of samples as predicted from their features."""
        if row_features is not None:
            X = as_features("row_features", row_features, data.shape[0], data.row_ids)
            return self._by_features(0, row_features, X)
        known = self._fitted_rows(data)
        if known is not None:
            return np.asarray(self._bases[known])
        return np.tile(self._bases.mean(axis=0), (data.shape[0], 1))

    def _by_table(self, side: int, wanted: Any, features: Any) -> tuple[Floats, Any]:
        """Factors and effects of one side, from its features unless `fit` knows the ids, and positions in them."""
        labels = (self._rows, self._cols)[side]
        ids = features.index.to_numpy() if hasattr(features, "index") and hasattr(features, "iloc") else None
        table = as_features(f"{labels.kind}_features", features, None, None)
        factors, n = self._by_features(side, features, table), table.shape[0]
        no_effects = np.tile([0.0, 1.0] if side == 0 else [1.0, self.intercept_], (n, 1))
        new, given = np.hstack([factors, no_effects]), Labels(labels.kind, n, ids)
        if ids is None or labels.ids is None:
            return new, given.positions(wanted)
        learned, known, at = self._left if side == 0 else self._right, labels.places(wanted), given.places(wanted)
        if ((found := np.maximum(known, at)) < 0).any():
            raise given.refusal(wanted, found, "give the features of all that fit has not seen")
        return np.vstack([learned, new]), np.where(known < 0, len(learned) + at, known)

    def _by_features(self, side: int, given: Any, X: Any) -> Floats:
        encoding: Encoding = self._encodings[side]
        encoding.check(given, X)
        return np.asarray(encoding.matrix(X, X.shape[0]) @ self._coefs[side])

    def _checked_feature_weight(self) -> float | None:
        """The weight that was given; None if it has to be found."""
        weight = as_float(self.feature_weight)
        if is_auto(self.feature_weight):
            return None
        if not LEAST <= weight <= LARGEST:
            raise ValueError(
                f"feature_weight must be 'auto' or a positive number, from {LEAST:g} to {LARGEST:g}; got "
                f"{self.feature_weight!r}"
            )
        return weight

    def _checked_effects(self) -> bool:
        """Whether there are a mean and constants."""
        if not (self.effects is None or is_auto(self.effects)):
            raise ValueError(
                f"effects must be 'auto', for a mean and effects of rows and columns, or None; got {self.effects!r}. "
                "With features, effects are a part of W and have no separate ridges"
            )
        return self.effects is not None

    def _warn_of_unobserved(self, layout: Layout) -> None:
        """Only of rows and columns without features: the others are predicted by these."""
        data = layout.data
        counts = zip(("samples", "features"), (data.row_counts(), data.col_counts()), self._encodings, strict=True)
        lacking = [
            f"{(n == 0).sum()} of {len(n)} {what}" for what, n, e in counts if e.given is None and (n == 0).any()
        ]
        if lacking:
            warn_caller(
                f"{' and '.join(lacking)} have neither an observed entry nor features; they are predicted like an "
                "average one"
            )

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        arrays |= {"coef_rows": self._coefs[0], "coef_columns": self._coefs[1], "bases": self._bases}
        facts |= {"encodings": [asdict(e) for e in self._encodings], "weighting": self.weighting_}
        of_search = found_file.written(self)
        return arrays | of_search[0], facts | of_search[1] | {"feature_weight": self.feature_weight_}

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        if "fit_intercept" in params:  # of an older version, whose models have constants, but no mean
            params = params | {"effects": AUTO if params["fit_intercept"] else None}
            del params["fit_intercept"]
        model = super()._from_file(params, arrays, facts)
        rows, rank = model.row_factors_.shape
        of_rows, of_columns = (Encoding.from_plain(e) for e in facts["encodings"])
        model._encodings = of_rows, of_columns
        coefs = (("coef_rows", of_rows), ("coef_columns", of_columns))
        left, right = (parts.floats(arrays, name, encoding.width, rank) for name, encoding in coefs)
        model._coefs, model._bases = (left, right), parts.floats(arrays, "bases", rows, rank)
        model.C_ = model._subspace.C
        given = params | facts  # of files of older versions, the settings that were given
        model.weighting_, model.feature_weight_ = (parts.number(given, k) for k in ("weighting", "feature_weight"))
        found_file.read(model, arrays, facts)
        return model

    def _set_subspace(self, features: Floats, C: float, weighting: float, mean_count: float) -> None:
        own = weighting if self.completion and self.row_factors_.any() else None
        self._subspace = InductiveSubspace(features, C, own, mean_count, self.intercept_)
