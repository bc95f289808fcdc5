"""LMaFit: minimise ½‖X Yᵀ − Z‖² over X, Y and Z with P_Ω(Z) = P_Ω(data), at most of the given rank.

Alternating least squares on the filled-in Z, over-relaxed: X and Y are fitted to X Yᵀ + ω S, where S is the residual at
the observed entries. ω grows while the residual falls slowly, and is set back to 1 when the residual rises. Z is never
formed. The rank rises from 1 to the given one, by one whenever the residual stagnates: the authors' strategy for data
without a clear rank. On ratings it is much better than starting at the full rank. What a new coordinate starts from is
chosen here: the leading singular vectors of S, with which the residual still falls.

Z. Wen, W. Yin, Y. Zhang, Solving a low-rank factorization model for matrix completion by a nonlinear successive
over-relaxation algorithm, 2012.
"""

from __future__ import annotations

import numpy as np

from paper.observed import Entries
from paper.record import Record
from rslm.runtime.types import Floats

NAME = "LMaFit"
PROBLEM = "‖P_Ω(W − Y)‖², rank W ≤ r"
GRID = (0.0,)

START = 1  # rank to begin with
SLOW = 0.7  # ω grows if the residual falls by a smaller factor than this
STAGNATES = 1e-4  # the rank rises if the residual falls by less than this, relative
MOST_STEPS = 500
SMALL_CHANGE = 1e-7  # of the squared residual, relative
EXACT = 1e-20  # squared residual relative to the data that is as good as 0


def fit(data: Entries, rank: int, weight: float, record: Record) -> None:
    """Run the over-relaxed iteration; `weight` is not used."""
    X, s, Q = data.singular_vectors(min(START, rank))
    Y: Floats = Q * s
    squares, S, SY = data.columns.residuals(data.y, X, Y, data.threads)
    record(X, Y)
    omega, growth = 1.0, 1.0
    for _ in range(MOST_STEPS):
        basis = np.linalg.qr(X @ (Y.T @ Y) + omega * SY)[0]
        fitted = Y @ (X.T @ basis) + omega * data.transposed_times(S, basis)
        trial = data.columns.residuals(data.y, basis, fitted, data.threads)
        ratio = float(np.sqrt(trial[0] / squares))
        if ratio >= 1.0 and omega > 1.0:
            growth = max(0.1 * (omega - 1.0), 0.1 * growth)
            omega = 1.0
            record(X, Y)
            continue
        X, Y, (squares, S, SY) = basis, fitted, trial
        record(X, Y)
        if squares <= EXACT * (data.y @ data.y):
            return
        if X.shape[1] < rank and 1.0 - ratio <= STAGNATES:
            X, Y = wider(Entries(data.columns, S, data.threads), X, Y)
            squares, S, SY = data.columns.residuals(data.y, X, Y, data.threads)
            omega, growth = 1.0, 1.0
        elif 1.0 - ratio**2 <= SMALL_CHANGE:
            return
        elif ratio >= SLOW:
            growth = max(growth, 0.25 * (omega - 1.0))
            omega += growth


def wider(residual: Entries, X: Floats, Y: Floats) -> tuple[Floats, Floats]:
    """Factors of X Yᵀ and the leading singular triplet of the residual, the left one orthonormal."""
    p, s, q = residual.singular_vectors(1)
    basis, R = np.linalg.qr(np.hstack([X, p]))
    return basis, np.hstack([Y, s * q]) @ R.T
