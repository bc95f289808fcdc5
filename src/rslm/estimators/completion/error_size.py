"""The size that the error of a prediction is expected to have.

|y − ŷ| of entry (i, j) is a combination, with coefficients ≥ 0, of a constant, the roots of the leverages of (i, j) in
its row and in its column, and the mean sizes of the residuals of the row and of the column. The coefficients are found
by least squares from held-out entries; what says nothing about errors gets a coefficient of 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from rslm.data import ObservedMatrix
from rslm.estimators.completion.leverage import Leverage
from rslm.runtime.types import Floats

SHRUNK = 5.0  # residuals of the usual size that are added to those of a row or a column
CONSTANT = np.array([1.0, 0.0, 0.0, 0.0, 0.0])  # coefficients if all errors have the same expected size


@dataclass(frozen=True)
class Residuals:
    """What a fit leaves of its entries: how many entries rows and columns have, and their mean residuals."""

    row_counts: Floats
    col_counts: Floats
    rows: Floats  #: mean size of the residuals of every row, in units of the features
    columns: Floats
    units: Floats | None  #: of the features; None if they have none

    @classmethod
    def of(cls, data: ObservedMatrix, residuals: Floats, units: Floats | None) -> Residuals:
        """From the entries that a model was fitted to, and what it leaves of them."""
        size = np.abs(residuals if units is None else residuals / units[data.index])
        usual = float(size.mean())
        of_rows, of_columns = (n.astype(np.float64) for n in (data.row_counts(), data.col_counts()))

        def means(places: NDArray[Any], counts: Floats) -> Floats:
            return np.asarray((np.bincount(places, size, len(counts)) + SHRUNK * usual) / (counts + SHRUNK))

        rows, columns = means(data.rows_of_entries(), of_rows), means(data.index, of_columns)
        return cls(of_rows, of_columns, rows, columns, units)

    @classmethod
    def mean_of(cls, several: list[Residuals]) -> Residuals:
        """The average over folds."""
        names = ("row_counts", "col_counts", "rows", "columns")
        means = {name: np.mean([getattr(each, name) for each in several], axis=0) for name in names}
        return replace(several[0], **means)

    def features(self, leverage: Leverage, i: NDArray[Any], j: NDArray[Any]) -> Floats:
        """What the size of an error depends on, one line for every entry."""
        of_row, of_column = leverage.at(i, j)
        found = np.array([np.ones(len(i)), np.sqrt(of_row), np.sqrt(of_column), self.rows[i], self.columns[j]]).T
        return found if self.units is None else found * self.units[j, None]


@dataclass(frozen=True)
class ErrorSize:
    """Residuals of a fit, and how they combine to the expected size of an error."""

    residuals: Residuals
    coefficients: Floats

    def at(self, leverage: Leverage, i: NDArray[Any], j: NDArray[Any]) -> Floats:
        """The expected size of the errors at the entries (i[k], j[k])."""
        return np.asarray(self.residuals.features(leverage, i, j) @ self.coefficients)


def coefficients_of(features: Floats, errors: Floats) -> Floats:
    """By least squares from the sizes of held-out errors, with coefficients ≥ 0."""
    usual = float(errors.mean())
    if not 0.0 < usual < np.inf:
        return CONSTANT
    scales = np.where((largest := features.max(axis=0)) > 0, largest, 1.0)
    Q, R = np.linalg.qr(features / scales)
    found, _ = nnls(R, Q.T @ (errors / usual))
    return np.asarray(found * usual / scales) if found.any() else usual * CONSTANT
