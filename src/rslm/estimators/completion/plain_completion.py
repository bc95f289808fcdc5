"""Completion from the entries alone, within bounds if there are any."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from rslm.data import ObservedMatrix, parts
from rslm.estimators.choices import has_probabilities
from rslm.estimators.completion.asked import EFFECTS_FORM
from rslm.estimators.completion.bounds import as_box, from_plain, to_plain, warn_of_beyond
from rslm.estimators.completion.completion import Completion
from rslm.estimators.completion.fold_in import Offsets, Subspace
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.observed_input import is_sparse
from rslm.estimators.completion.ridges import Ridges
from rslm.estimators.completion.unobserved import unobserved
from rslm.estimators.persistence import Form
from rslm.estimators.warn import warn_caller
from rslm.runtime.threads import thread_count
from rslm.runtime.types import Floats
from rslm.solvers import Outcome
from rslm.storage.container import Arrays, Facts


class PlainCompletion(Completion):
    """Completion without features of rows and columns."""

    _subspace: Subspace
    _forms: ClassVar[dict[str, Form]] = {**Completion._forms, "bounds": (to_plain, from_plain), "effects": EFFECTS_FORM}

    def _warn_of_beyond(self, layout: Layout) -> None:
        """Warn of observed values beyond the bounds."""
        if layout.box is not None and not layout.loss.binary:
            warn_of_beyond(layout.box, layout.data, layout.beyond(layout.box))

    def _warn_of_equal(self, X: Any, layout: Layout) -> None:
        """Warn of stored ones, where what is not stored is meant to be zero; NaN in a dense array is missing."""
        if not (layout.at_hand and is_sparse(X)) or layout.loss.binary or layout.data.density == 1.0:
            return
        lowest, highest = layout.data.values.min(), layout.data.values.max()
        if lowest == highest > 0:
            warn_caller(
                f"all observed values are {highest:g}, so that all predictions are; if what is missing was not taken, "
                "clicked or bought, use ImplicitCompletion"
            )

    def _warn_of_unobserved(self, layout: Layout) -> None:
        data, alike = layout.data, layout.alike
        lacking = unobserved(data, getattr(self, "feature_names_in_", None))
        if not lacking:
            return
        samples, features = bool((data.row_counts() == 0).any()), bool((data.col_counts() == 0).any())
        if layout.ridges is not None:
            consequence = "they are predicted by the mean of all entries and the effects of the other side"
        elif (alike[0] or not samples) and (alike[1] or not features):
            consequence = "they are predicted like an average one"
        else:
            consequence = (
                "if they have their own bounds, only these are known about them; the others are predicted like an "
                "average one"
            )
        if features and getattr(self, "keep_empty_features", False):
            consequence += ". With keep_empty_features=False, transform leaves such features out"
        warn_caller(f"{lacking} have no observed entry; {consequence}")

    def _advice(self) -> dict[Outcome, str]:
        advice = super()._advice()
        if self._box is not None:
            advice[Outcome.FAILED] = (
                "no matrix of this rank was found within the bounds, and this one is beyond them; raise the rank, or "
                "widen the bounds"
            )
        return advice

    def predict(self, rows: Any, cols: ArrayLike | None = None, *, unseen: str = "error") -> Floats:
        """Predict the entries (rows[k], cols[k]).

        Parameters
        ----------
        rows, cols : arrays of one length
            Positions, or ids where `fit` was given ids. Without `cols`, `rows` is a dense matrix X of samples.
        unseen : {"error", "mean"}
            Whether a row or column that `fit` has not seen is an error, or predicted without effect and factors: by
            intercept_ and the effect of the other side. Without effects, it has the average factors.

        Returns
        -------
        array
            One value for each pair. For a loss of two classes it is the decision value: positive for the second class,
            negative for the first. For a matrix X, the model's values of all entries; `transform` keeps observed ones.
        """
        check_is_fitted(self)
        if cols is None:
            return self._reconstructed(self._dense_samples(rows))
        return self._entries(*self._of_rows(rows, unseen), *self._of_columns(cols, unseen))

    @available_if(has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, rows: Any, cols: ArrayLike | None = None, *, unseen: str = "error") -> Floats:
        """The probability of the second class, 1, for the entries whose decision values `predict` gives.

        Parameters
        ----------
        rows, cols, unseen : as in `predict`
        """
        return self._checked_loss().probability(self.predict(rows, cols, unseen=unseen))

    def score(self, X: Any, y: object = None, sample_weight: Any = None) -> float:
        """R² of the prediction on the observed entries of X; for a loss of two classes the fraction of correct ones.

        If `fit` has divided the features by their standard deviations, see `scale`, errors are relative to these, and
        to the errors of the mean of each feature in `fit`: 0 means that nothing is known beyond the means. Otherwise it
        is R² of all entries together, about their common mean.

        Row ids decide whether X holds the fitted samples. Without ids, an X of the shape that `fit` was given holds the
        fitted samples, unless its entries contradict those of `fit`. Any other X holds new samples: each of their
        entries is predicted from the other entries of its sample. The columns of an ObservedMatrix are found by their
        ids if `fit` was given ids.

        Parameters
        ----------
        X : as in `fit`
        y : ignored
        sample_weight : numbers ≥ 0, optional
            Weights of the entries, in any form that `fit` takes: weight 2 counts an entry twice, and an entry of weight
            0 is left out. An X with weights of its own is weighted by these.
        """
        return self._scored(X, sample_weight)

    def recommend_for(self, X: Any, top: int = 10) -> tuple[list[NDArray[Any]], list[Floats]]:
        """The columns with the largest predictions for new samples, without those that X has an entry of.

        Every sample is fitted at the learned subspace, as by `transform`. No dense matrix is formed.

        Parameters
        ----------
        X : array, DataFrame, scipy.sparse matrix or ObservedMatrix with the features that `fit` was given
            Of an ObservedMatrix with ids, where `fit` was given ids too, columns are found by id, so that it needs only
            those that have an entry. Entries of columns that are unknown to the model are left out, with a warning.
        top : int, default=10
            Maximum number of columns for each sample.

        Returns
        -------
        columns, predictions : lists of arrays, one for each sample
            As in `recommend`.
        """
        return self._recommended_for(X, top)

    def _folded(self, data: ObservedMatrix, row_features: Any = None) -> tuple[Floats, Floats]:
        subspace = self._subspace
        features = subspace.features if subspace.units is None else subspace.features * subspace.units[:, None]
        codes, effects = subspace.fold_in(data, self._solved_loss(), thread_count(self.n_threads))
        if subspace.offsets is not None:
            units = np.ones(len(features)) if subspace.units is None else subspace.units
            left = np.column_stack([codes, effects, np.ones(len(codes))])
            return left, np.column_stack([features, units, self.col_effects_ + self.intercept_])
        if (empty := data.row_counts() == 0).any() and (self._box is None or self._box.shape[0] == 1):
            average = self.col_factors_ @ self.row_factors_.mean(axis=0)  # which is in the same subspace
            codes[empty] = np.linalg.lstsq(features, average, rcond=None)[0]
        return codes, features

    def _left_out(self, data: ObservedMatrix, row_features: Any) -> Floats:
        return self._subspace.left_out(data, self._solved_loss(), thread_count(self.n_threads))

    def _set_subspace(self, features: Floats, C: float, weighting: float, mean_count: float) -> None:
        self._box = as_box(self.bounds, (len(self.row_factors_), len(features)))
        self._subspace = Subspace(features, C, weighting, mean_count, self._box)

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        offsets, units = self._subspace.offsets, self._subspace.units
        if offsets is not None:
            arrays["offsets"] = offsets.columns
            facts["offsets"] = [float(offsets.mean), offsets.ridge]
        if self._ridges is not None:
            facts["ridges"] = [self._ridges.rows, self._ridges.columns]
        return arrays | ({} if units is None else {"units": units}), facts

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = super()._from_file(params, arrays, facts)
        n = len(model.col_factors_)
        if "offsets" in arrays:
            mean, ridge = parts.number(facts["offsets"], 0), facts["offsets"][1]
            ridge = None if ridge is None else parts.number(facts["offsets"], 1, least=0.0)
            offsets = Offsets(mean, parts.floats(arrays, "offsets", n), ridge)
            model._subspace = replace(model._subspace, offsets=offsets)
        if (ridges := facts.get("ridges")) is not None:
            known = [None if r is None else parts.number(ridges, k, least=0.0) for k, r in enumerate(ridges)]
            model._ridges = Ridges(*known)
        if "units" in arrays:
            units = parts.floats(arrays, "units", n)
            if not (units > 0).all():
                raise ValueError("units")
            model._subspace = replace(model._subspace, units=units)
        return model
