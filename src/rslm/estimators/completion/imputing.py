"""A completion as an imputer: filled tables, indicators of what was missing, and random draws of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from rslm.data import ObservedMatrix, as_generator
from rslm.data.splits import Seed
from rslm.estimators.choices import is_whole
from rslm.estimators.completion.streaming import PartialFit
from rslm.runtime.types import Floats

SHRUNK = 10.0  # entries: the noise of a feature with fewer is near that of all features


class Imputing(PartialFit):
    """Completion that fills tables as scikit-learn's imputers do."""

    add_indicator: bool
    keep_empty_features: bool

    def transform(self, X: Any) -> Floats:
        """Fill the missing entries of X, with classes if the loss is one of two classes; observed ones are kept.

        Every sample is fitted at the learned subspace of the features, including samples that `fit` has not seen. The
        result is dense.

        Parameters
        ----------
        X : array, DataFrame, scipy.sparse matrix or ObservedMatrix with the features that `fit` was given

        Returns
        -------
        array of shape (n_samples, n_features_out)
            Without features that had no entry in `fit`, unless `keep_empty_features`; with `add_indicator`, followed
            by a column of 0 and 1 for every feature with a missing entry in `fit`, 1 where an entry of X is missing.
        """
        filled = self._filled(X)
        parts = [filled if self.keep_empty_features else filled[:, self._filled_features]]
        if self.add_indicator:
            parts.append(self._missing(self._observed(X, fitting=False)))
        return parts[0] if len(parts) == 1 else np.hstack(parts)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """The names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : array of str, optional
            Names of the features; those of `fit` if None.
        """
        check_is_fitted(self)
        names = np.asarray(_check_feature_names_in(self, input_features), dtype=object)
        kept = names if self.keep_empty_features else names[self._filled_features]
        if not self.add_indicator:
            return kept
        return np.concatenate([kept, [f"missingindicator_{name}" for name in names[self._gaps]]])

    def sample(self, n_draws: int = 1, X: Any = None, random_state: Seed = None) -> Floats:
        """Draws of the filled matrix: missing entries are predictions plus noise, observed ones are kept.

        The noise of a feature is normal, with the standard deviation of its residuals, corrected by the error of
        held-out entries, or for the number of coefficients that were fitted. For two classes, classes are drawn by
        their probabilities. For multiple imputation, analyse every draw and pool the results. The model is the same in
        all draws, so that its own uncertainty is not in them.

        Parameters
        ----------
        n_draws : int
        X : as in `transform`, optional
            The matrix that `fit` was given if None.
        random_state : int, RandomState, Generator or None
            Seed of the draws.

        Returns
        -------
        array of shape (n_draws, n_samples, n_features)
        """
        check_is_fitted(self)
        if not is_whole(n_draws, least=1):
            raise ValueError(f"n_draws must be a whole number ≥ 1; got {n_draws!r}")
        loss = self._checked_loss()
        if self.classes_ is not None and not loss.probabilistic:
            raise ValueError(f"draws of two classes need probabilities, which loss='logistic' has; got {self.loss!r}")
        if not hasattr(self, "residuals_"):
            raise ValueError("a model that was loaded from a file or fitted by a cluster has no residuals; use fit")
        rng = as_generator(random_state)
        data = self._fitted_data() if X is None else self._observed(X, fitting=False)
        center = self._left @ self._right.T if X is None else self._reconstructed(data)
        rows, cols, known = data.rows_of_entries(), data.index, data.values
        draws = np.empty((n_draws, *center.shape))
        for draw in draws:
            if self.classes_ is not None:
                draw[:] = self.classes_[(rng.random(center.shape) < loss.probability(center)).astype(int)]
            else:
                draw[:] = center + self._noise * rng.standard_normal(center.shape)
                if self._box is not None:
                    np.clip(draw, *self._box.planes(draw.shape), out=draw)
            draw[rows, cols] = known if self.classes_ is None else self.classes_[(known > 0).astype(int)]
        return draws

    @property
    def _noise(self) -> Floats:
        """The standard deviation of the noise of every feature."""
        left, units = self.residuals_, self._subspace.units
        units = np.ones(left.shape[1]) if units is None else units
        squares = (np.asarray(left.values, dtype=np.float64) / units[left.index]) ** 2
        counts = left.col_counts()
        mean = float(squares.mean())
        # Residuals are smaller than the noise, as fitted coefficients follow some of it. Held-out errors show by how
        # much; without them, the number of coefficients does.
        fitted = min((self.rank_ + 1) * sum(left.shape), 0.9 * len(left))
        overall = mean * len(left) / (len(left) - fitted)
        if self.held_out_ is not None and self._checked_loss().quadratic:
            overall = self.held_out_["model"] ** 2
        sums = np.bincount(left.index, squares, left.shape[1]) * (overall / mean if mean > 0 else 1.0)
        return np.asarray(units * np.sqrt((sums + SHRUNK * overall) / (counts + SHRUNK)))

    @property
    def _filled_features(self) -> NDArray[np.bool_]:
        return self._counts > 0

    @property
    def _gaps(self) -> NDArray[np.bool_]:
        """Features that had a missing entry in `fit`."""
        return self._counts < len(self.row_factors_)

    def _missing(self, data: ObservedMatrix) -> Floats:
        missing = np.ones(data.shape)
        missing[data.rows_of_entries(), data.index] = 0.0
        return missing[:, self._gaps]
