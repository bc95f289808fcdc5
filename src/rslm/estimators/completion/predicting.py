"""Predictions of a learned matrix: of its entries, of new samples, and how good they are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from rslm.certificate import Certificate
from rslm.data import ObservedMatrix
from rslm.estimators.completion.bounds import clipped
from rslm.estimators.completion.fitted_samples import FittedSamples
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.observed_input import ObservedInput, check_rows_alike, refuse_sparse
from rslm.estimators.completion.ridges import Ridges
from rslm.estimators.completion.unseen import places
from rslm.estimators.fitted_loss import FittedLoss
from rslm.estimators.scaling import extreme_scale
from rslm.evaluation.dual import sum_in_blocks
from rslm.kernels import Columns, predict_pairs
from rslm.location import Effects
from rslm.location.packing import Packing
from rslm.losses import Loss
from rslm.runtime.threads import thread_count
from rslm.runtime.types import Floats, Indices64
from rslm.structures import Box


class Predicting(TransformerMixin, FittedLoss, ObservedInput):  # type: ignore[misc]
    """A learned matrix: the products of row and column factors."""

    row_factors_: Floats
    col_factors_: Floats
    intercept_: float = 0.0
    row_effects_: Floats
    col_effects_: Floats
    classes_: NDArray[Any] | None
    _subspace: Any  # of the features, for new samples
    _seen: FittedSamples
    _counts: NDArray[Any]  # observed entries of every feature
    _rounding: float  # of the kinks of the loss
    _box: Box | None = None
    _ridges: Ridges | None = None  # of the effects; None where there are none
    _in_deviations: bool = False  # whether features have units of their own, so that errors are relative to them

    @abstractmethod
    def _folded(self, data: ObservedMatrix, row_features: Any = None) -> tuple[Floats, Floats]:
        """Factors of new samples and of the features; their products are the predictions."""

    @abstractmethod
    def _left_out(self, data: ObservedMatrix, row_features: Any) -> Floats:
        """Every observed entry of new samples, predicted from the other entries of its sample."""

    def _solved_loss(self) -> Loss:
        """The loss that was solved: with its kinks rounded, if it has any."""
        loss = self._checked_loss()
        return loss.rounded(self._rounding) if self._rounding > 0 else loss

    @property
    def _left(self) -> Floats:
        """Row factors and effects: predictions are the products of `_left` and `_right`."""
        return np.column_stack([self.row_factors_, self.row_effects_, np.ones(len(self.row_factors_))])

    @property
    def _right(self) -> Floats:
        return self._with_effects(self.col_factors_)

    def _with_effects(self, col_factors: Floats) -> Floats:
        """Factors of the columns, followed by 1 for the row effects, and by the column effects and the intercept."""
        return np.column_stack([col_factors, np.ones(len(col_factors)), self.col_effects_ + self.intercept_])

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the input features.

        Parameters
        ----------
        input_features : sequence of str, optional
            The names, if `fit` was given none; otherwise they must equal those that `fit` was given.
        """
        check_is_fitted(self)
        return _check_feature_names_in(self, input_features)

    def _entries(self, left: Floats, i: Indices64, right: Floats, j: Indices64) -> Floats:
        """The predictions of entries at these positions in the factors."""
        if i.shape != j.shape:
            raise ValueError(f"rows and cols must have the same length; got {len(i)} and {len(j)}")
        values, box = predict_pairs(i, j, left, right, thread_count(self.n_threads)), self._box
        if box is None:
            return values
        # Positions beyond the factors of the fit stand for what it has not seen, which has no bounds of its own.
        rows, cols = len(self.row_factors_), len(self.col_factors_)
        bounded = ((i < rows) | (box.shape[0] == 1)) & ((j < cols) | (box.shape[1] == 1))
        values[bounded] = clipped(values[bounded], box, i[bounded], j[bounded])
        return values

    def _of_rows(self, wanted: Any, unseen: str) -> tuple[Floats, Indices64]:
        """Factors and effects of rows, and positions in them; without location, an unseen row has average factors."""
        factors = self.row_factors_.mean(axis=0) * (self._ridges is None)
        return places(self._rows, wanted, self._left, np.append(factors, [0.0, 1.0]), unseen)

    def _of_columns(self, wanted: Any, unseen: str) -> tuple[Floats, Indices64]:
        """The same for columns."""
        factors = self.col_factors_.mean(axis=0) * (self._ridges is None)
        found = places(self._cols, wanted, self._right, np.append(factors, [1.0, self.intercept_]), unseen)
        if len(found[0]) > len(self.col_factors_) and getattr(self._subspace, "units", None) is not None:
            raise ValueError(
                "features were divided by their standard deviations, so nothing is known of one that fit has not seen; "
                "leave unknown columns out"
            )
        return found

    def _dense_samples(self, X: Any) -> ObservedMatrix:
        refuse_sparse(X, "use predict(rows, cols) for single entries or transform(X) for a filled matrix")
        shape = getattr(X, "shape", None) or np.shape(X)
        if shape[1:] == (2,) and self.n_features_in_ != 2:
            raise ValueError(
                f"X has 2 features, but {type(self).__name__} is expecting {self.n_features_in_} features as input; "
                "for pairs of a row and a column give the two apart: predict(rows, cols)"
            )
        return self._observed(X, fitting=False)

    def _reconstructed(self, data: ObservedMatrix, row_features: Any = None) -> Floats:
        """All entries of new samples."""
        codes, features = self._folded(data, row_features)
        W: Floats = codes @ features.T
        if self._box is not None:  # rounding errors
            np.clip(W, *self._box.planes(W.shape), out=W)
        return W

    def _filled(self, X: Any, row_features: Any = None) -> Floats:
        """The missing entries filled, with classes if there are any, and the observed ones kept."""
        check_is_fitted(self)
        data = self._observed(X, fitting=False)
        filled, known = self._reconstructed(data, row_features), data.values
        if self.classes_ is not None:
            filled, known = (self.classes_[(values > 0).astype(int)] for values in (filled, known))
        filled[data.rows_of_entries(), data.index] = known
        return filled

    def _scored(self, X: Any, sample_weight: Any = None, row_features: Any = None) -> float:
        """R², or the fraction of correct classes, on the observed entries of X, weighted if they have weights."""
        check_is_fitted(self)
        data = self._observed(X, fitting=False, sample_weight=sample_weight, by_ids=True)._not_empty(allow_empty=False)
        check_rows_alike(X, self._rows)
        rows = self._fitted_rows(data) if row_features is None else None
        prediction = self._left_out(data, row_features) if rows is None else self._predicted(data, self._left[rows])
        y, n, weights = data.values, len(data), data.weights
        largest = 1.0 if weights is None else float(weights.max())  # relative to it, sums are finite

        def total_of(part: Callable[[slice], Any]) -> float:
            return sum_in_blocks(part if weights is None else lambda at: weights[at] / largest * part(at), n)

        count = float(n) if weights is None else total_of(lambda at: np.ones(len(y[at])))
        if self.classes_ is not None:
            return total_of(lambda at: (prediction[at] > 0) == (y[at] > 0)) / count
        targets, centre = self._checked_loss().targets, None
        if self._in_deviations:
            y, prediction, centre = self._in_units(data, y, prediction)
        scale = extreme_scale(np.array([y.max(), y.min(), prediction.max(), prediction.min()], dtype=np.float64))
        mean = total_of(lambda at: targets(y[at]) / scale) / count if centre is None else 0.0

        def about(at: slice) -> Floats:
            return np.asarray(mean if centre is None else centre[at] / scale)

        left = total_of(lambda at: ((targets(y[at]) - prediction[at]) / scale) ** 2)
        total = total_of(lambda at: (targets(y[at]).astype(np.float64) / scale - about(at)) ** 2)
        return 1.0 - left / total if total > 0 else float(left == 0)

    def _in_units(self, data: ObservedMatrix, *of_entries: Floats) -> list[Floats]:
        """Numbers of all entries and the means of their features, divided by the units of the features.

        The means are those of the fit: some features may have a single entry in `data`.
        """
        units = self._subspace.units
        means = (self._left.mean(axis=0) @ self._right.T) / units
        return [*(np.asarray(numbers / units[data.index]) for numbers in of_entries), means[data.index]]

    def _predicted(self, data: ObservedMatrix, row_factors: Floats) -> Floats:
        """The predictions of the observed entries of samples with these factors and effects."""
        columns = Columns(data.indptr, data.index, data.shape[1])
        return columns.predict(self._right, row_factors, thread_count(self.n_threads))

    def _fitted_rows(self, data: ObservedMatrix) -> Indices64 | None:
        """Positions of samples among the fitted ones, by ids or else by comparing entries; None if they are new."""
        if data.row_ids is not None and self._rows.ids is not None:
            return self._rows.positions(data.row_ids) if self._rows.knows(data.row_ids) else None
        return np.arange(data.shape[0]) if self._seen.may_be(data) else None

    def certify(self, X: Any, sample_weight: Any = None) -> Certificate:
        """How far the learned subspace of the features is from the optimum on other data, solved at that subspace.

        Parameters
        ----------
        X : array, DataFrame, scipy.sparse matrix or ObservedMatrix with the features that `fit` was given
            Its rows may be other samples, any number of them.
        sample_weight : numbers ≥ 0, optional
            Weights of the entries, in any form that `fit` takes.

        Returns
        -------
        Certificate
        """
        check_is_fitted(self)
        data = self._observed(X, fitting=False, sample_weight=sample_weight, by_ids=True)._not_empty(allow_empty=False)
        C, weighting = self._subspace.C, self._subspace.weighting
        parts = self._checked_loss(), C, weighting, self._box
        units = self._subspace.units if self._ridges is not None else None
        layout = Layout(data, *parts, left="features", ridges=self._ridges, units=units)
        start, rank = self._learned_start(layout)
        return self._solve(layout.problem(), rank, start, max_iter=0).certificate.scaled(layout.scale)

    def _learned_start(self, layout: Layout) -> tuple[Floats, int]:
        """What was learned of the features, as a start for a layout with the features on the left, and its rank."""
        features = self._subspace.features
        if not features.any():  # effects alone, for which any subspace will do
            features = np.ones_like(features)
        start = layout.start(features)
        rank = start.shape[1]
        if (offsets := self._subspace.offsets if self._ridges is not None else None) is not None:
            effects = Effects(offsets.mean, offsets.columns, np.zeros(layout.data.shape[0]), np.zeros(0))
            start = Packing.of(layout.problem()).packed(start, effects.scaled(1.0 / layout.scale))
        return start, rank
