"""Missing samples as unknowns of a least-squares problem, eliminated before the others.

The filter is the same at all times, so the row of a missing sample is the impulse response of the filter, shifted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from rslm.estimators.series.dynamics import autoregression
from rslm.runtime.types import Floats

ROUNDING = 1e-13  # of the Gram matrix of gaps, relative to its diagonal, for each of its rows


def rows_of_gaps(missing: NDArray[np.intp], impulse: Floats, partial: Floats) -> Floats:
    """Whitened rows, (missing, n), of single ones whose filtered form is `impulse`, shifted."""
    n, p = len(impulse), len(partial)
    response = impulse.copy()
    for i, phi in enumerate(autoregression.coefficients(partial), start=1):
        response[i:] -= phi * impulse[:-i]
    found = sliding_window_view(np.append(np.zeros(n), response), n)[n - missing]
    for k in np.flatnonzero(missing < p):  # whitening differs in the first samples
        shifted = np.append(np.zeros(missing[k]), impulse)[:n]
        found[k] = autoregression.whitened(shifted[None], partial)[0]
    return found


@dataclass(frozen=True)
class Elimination:
    """Rows of a problem from which the best combinations of the rows of gaps were subtracted."""

    rows: Floats
    factor: Floats  #: Cholesky factor, lower, of the Gram matrix of these gaps
    products: Floats  #: its inverse times the products of gaps and rows
    log_determinant: float  #: of the Gram matrix

    def coefficients(self, of_rows: Floats) -> Floats:
        """Of the gaps, if the last row is approximated with these coefficients of the others."""
        left = self.products[:, -1] - self.products[:, :-1] @ of_rows
        return np.asarray(solve_triangular(self.factor, left, lower=True, trans="T"))


def eliminate(gaps: Floats, rows: Floats) -> Elimination:
    gram = gaps @ gaps.T
    # Exponentials within a long gap are almost annihilated by the filter, so the matrix may be singular up to rounding.
    gram[np.diag_indices_from(gram)] *= 1.0 + ROUNDING * len(gram)
    factor = cholesky(gram, lower=True)
    products = solve_triangular(factor, gaps @ rows.T, lower=True)
    left = rows - solve_triangular(factor, products, lower=True, trans="T").T @ gaps
    return Elimination(left, factor, products, 2 * float(np.log(np.diag(factor)).sum()))
