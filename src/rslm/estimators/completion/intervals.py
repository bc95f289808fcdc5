"""Intervals of the predictions of a completed matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data import parts
from rslm.estimators.completion.error_size import CONSTANT, ErrorSize, Residuals
from rslm.estimators.completion.leverage import Leverage
from rslm.evaluate.intervals import Calibration
from rslm.runtime.types import Floats

LEAST_SHARE = 1e-6  # of an entry being observed

NAMES = ("row_counts", "col_counts", "rows", "columns", "units")


@dataclass(frozen=True)
class Intervals:
    """The scores of held-out entries, and the expected size of the error of any entry."""

    calibration: Calibration  #: weighted by the odds that an entry is missing
    size: ErrorSize

    @classmethod
    def of(cls, size: ErrorSize, errors: Floats, expected: Floats, i: NDArray[Any], j: NDArray[Any]) -> Intervals:
        """From held-out entries (i[k], j[k]): the sizes of their errors, and what was expected."""
        scores = np.divide(errors, expected, out=np.zeros(len(errors)), where=expected > 0)
        return cls(Calibration.of(scores, odds(size.residuals, i, j)), size)

    def widths(self, leverage: Leverage, i: NDArray[Any], j: NDArray[Any], coverage: float, missing: bool) -> Floats:
        """Half the widths of the intervals of entries; `missing` as in `predict_interval`."""
        factors: Any = self.calibration.factor(coverage)  # an error if there are too few scores
        if missing:
            factors = self.calibration.weighted_factors(coverage, odds(self.size.residuals, i, j))
        return np.asarray(factors * self.size.at(leverage, i, j))

    def to_arrays(self, prefix: str = "interval_") -> dict[str, NDArray[Any]]:
        residuals = self.size.residuals
        arrays: dict[str, Any] = {name: getattr(residuals, name) for name in NAMES}
        arrays |= {"coefficients": self.size.coefficients}
        arrays |= {"scores": self.calibration.scores, "odds": self.calibration.weights}
        return {prefix + name: array for name, array in arrays.items() if array is not None}

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, NDArray[Any]], shape: tuple[int | None, int | None], prefix: str = "interval_"
    ) -> Intervals | None:
        """None if a model was saved without them."""
        if f"{prefix}scores" not in arrays:
            return None
        lengths = dict(zip(NAMES, (*shape, *shape, shape[1]), strict=True))
        read: dict[str, Any] = {
            name: parts.floats(arrays, prefix + name, length) if prefix + name in arrays else None
            for name, length in lengths.items()
        }
        scores = parts.floats(arrays, f"{prefix}scores", None)
        weights = parts.floats(arrays, f"{prefix}odds", len(scores))
        size = ErrorSize(Residuals(**read), parts.floats(arrays, f"{prefix}coefficients", len(CONSTANT)))
        return cls(Calibration(scores, weights), size)


def odds(residuals: Residuals, i: NDArray[Any], j: NDArray[Any]) -> Floats:
    """The odds (1 − p)/p that entries are missing, with p estimated from the counts of their rows and columns.

    p_ij is n_i m_j / Σ n, as if rows and columns were observed independently of each other.
    """
    total = max(float(residuals.row_counts.sum()), 1.0)
    p = np.clip(residuals.row_counts[i] * residuals.col_counts[j] / total, LEAST_SHARE, 1.0 - LEAST_SHARE)
    return np.asarray((1.0 - p) / p)
