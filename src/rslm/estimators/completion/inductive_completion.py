"""Complete a matrix whose rows and columns are described by features."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.callback import with_callbacks
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from rslm.data import Labels, ObservedMatrix, parts
from rslm.estimators.choices import has_probabilities
from rslm.estimators.completion.completion import Completion
from rslm.estimators.completion.inductive_layout import InductiveLayout, InductiveSubspace
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.side_features import Encoding, as_features
from rslm.estimators.persistence import storable
from rslm.estimators.warn import warn_caller
from rslm.losses import Loss
from rslm.runtime.magnitudes import LARGEST, LEAST, as_float
from rslm.runtime.threads import thread_count
from rslm.runtime.types import Floats
from rslm.solvers.stopping import time_left
from rslm.storage.container import Arrays, Facts


@storable
class InductiveCompletion(Completion):
    """Low-rank matrix completion with features of the rows and of the columns.

    Entry (i, j) is predicted by ãᵢᵀ W b̃ⱼ. The row ãᵢ holds a constant, the features of row i and, for the completion
    term, an indicator of the row itself; b̃ⱼ likewise. W is of rank at most `rank` and minimises
    ``C Σ loss(x_ij, ãᵢᵀ W b̃ⱼ) + ½ ‖W‖_*²``. Effects of features are learned from all rows that share them, so rows and
    columns without a single observed entry are predicted by their features.

    Parameters
    ----------
    rank : int, optional
        Maximum rank of W. If None, 10 or the smaller side of W.
    C : float, default=30.0
        Weight of the loss, a sum over the observed entries, against the trace norm. Larger fits the data more closely.
    completion : bool, default=True
        Whether rows and columns have coefficients of their own, as in plain completion, in addition to those of their
        features.
    feature_weight : float, default=0.2
        Size of the features relative to the constant and the indicators, which are 1: the features of a side are
        scaled so that this is the root mean square length of their rows. Larger trusts them more. Bring features of
        different units to one scale first.
    fit_intercept : bool, default=True
        Whether there is a constant feature on both sides: with it a common mean, and one for every row and column.
    loss : str or Loss, default="square"
        As in `MatrixCompletion`: "square", "absolute", "huber", "logistic", "hinge" …, or an instance of a loss.
    weighting : float, default=0.0
        As in `MatrixCompletion`, for the indicators.
    warm_start : bool, default=False
        Whether `fit` starts from the subspace that the last `fit` has found, for instance on a path of growing C.
    solver, max_iter, tol, max_time, random_state, n_threads, verbose
        As in `MatrixCompletion`.

    Attributes
    ----------
    row_factors_, col_factors_ : arrays (n_samples, rank) and (n_features, rank)
        The matrix is row_factors_ @ col_factors_.T, features and indicators together.
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
        rank: int | None = None,
        C: float = 30.0,
        *,
        completion: bool = True,
        feature_weight: float = 0.2,
        fit_intercept: bool = True,
        loss: str | Loss = "square",
        weighting: float = 0.0,
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
        self.fit_intercept = fit_intercept
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

    @with_callbacks  # type: ignore[untyped-decorator]
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
        data = self._observed(X, fitting=True, sample_weight=sample_weight)
        weighting, weight = self._checked_weighting(), self._checked_feature_weight()
        of_rows = as_features("row_features", row_features, data.shape[0], data.row_ids)
        of_columns = as_features("column_features", column_features, data.shape[1], data.col_ids)
        constant = bool(self.fit_intercept)
        encodings = (
            Encoding.of("row", row_features, of_rows, weight, constant),
            Encoding.of("column", column_features, of_columns, weight, constant),
        )
        lacking = [e.kind for e in encodings if e.width == 0]
        if lacking and not self.completion:
            raise ValueError(f"completion=False needs {lacking[0]}_features, or fit_intercept=True")
        features, own, loss = (of_rows, of_columns), bool(self.completion), self._checked_loss()
        layout = InductiveLayout(data, loss, self.C, weighting, features=features, encodings=encodings, completion=own)
        self._check_rank(layout)
        start = self._last if self.warm_start else None
        with self._solving():
            self._last = self._fit(X, layout, self.rank, start, time_left(self.max_time, began), checkpoint).U
        return self

    def _check_rank(self, layout: InductiveLayout) -> None:
        largest = min(side.width for side in layout.sides)
        if isinstance(self.rank, int) and self.rank > largest:
            raise ValueError(
                f"rank is {self.rank}, but the smaller side has {largest} features, the constant and the indicators of "
                "rows or columns included; lower the rank"
            )

    def predict(
        self, rows: Any, cols: ArrayLike | None = None, *, row_features: Any = None, column_features: Any = None
    ) -> Floats:
        """Predict the entries (rows[k], cols[k]).

        Parameters
        ----------
        rows, cols : arrays of one length
            Positions, or ids where `fit` was given ids. Without `cols`, `rows` is a dense matrix X of samples: returns
            the model's value of all their entries.
        row_features : array, DataFrame or scipy.sparse matrix, optional
            Features of new rows: `rows` are then positions in this table, or labels of its index.
        column_features : the same for `cols`, optional
        """
        check_is_fitted(self)
        if cols is None:
            return self._reconstructed(self._dense_samples(rows), row_features)
        return self._entries(*self._factors(0, rows, row_features), *self._factors(1, cols, column_features))

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
        return factors, self.col_factors_

    def _left_out(self, data: ObservedMatrix, row_features: Any) -> Floats:
        bases, threads = self._bases_of(data, row_features), thread_count(self.n_threads)
        return self._subspace.left_out(data, bases, self._solved_loss(), threads)

    def _bases_of(self, data: ObservedMatrix, row_features: Any) -> Floats:
        """The factors of samples as predicted from their features."""
        if row_features is not None:
            X = as_features("row_features", row_features, data.shape[0], data.row_ids)
            return self._by_features(0, row_features, X)
        known = self._fitted_rows(data)
        if known is not None:
            return np.asarray(self._bases[known])
        return np.tile(self._bases.mean(axis=0), (data.shape[0], 1))

    def _factors(self, side: int, wanted: Any, features: Any) -> tuple[Floats, Any]:
        """Factors of one side, and positions in them."""
        labels, factors = ((self._rows, self.row_factors_), (self._cols, self.col_factors_))[side]
        if features is None:
            return factors, labels.positions(wanted)
        ids = features.index.to_numpy() if hasattr(features, "index") and hasattr(features, "iloc") else None
        table = as_features(f"{labels.kind}_features", features, None, None)
        return self._by_features(side, features, table), Labels(labels.kind, table.shape[0], ids).positions(wanted)

    def _by_features(self, side: int, given: Any, X: Any) -> Floats:
        encoding: Encoding = self._encodings[side]
        encoding.check(given, X)
        return np.asarray(encoding.matrix(X, X.shape[0]) @ self._coefs[side])

    def _checked_feature_weight(self) -> float:
        weight = self.feature_weight
        if not LEAST <= as_float(weight) <= LARGEST:
            raise ValueError(f"feature_weight must be a positive number, from {LEAST:g} to {LARGEST:g}; got {weight!r}")
        return float(weight)

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
        return arrays, facts | {"encodings": [asdict(e) for e in self._encodings]}

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = super()._from_file(params, arrays, facts)
        rows, rank = model.row_factors_.shape
        of_rows, of_columns = (Encoding.from_plain(e) for e in facts["encodings"])
        model._encodings = of_rows, of_columns
        coefs = (("coef_rows", of_rows), ("coef_columns", of_columns))
        left, right = (parts.floats(arrays, name, encoding.width, rank) for name, encoding in coefs)
        model._coefs, model._bases = (left, right), parts.floats(arrays, "bases", rows, rank)
        return model

    def _set_subspace(self, features: Floats, C: float, weighting: float, mean_count: float) -> None:
        self._subspace = InductiveSubspace(features, C, weighting if self.completion else None, mean_count)
