"""Noise with memory: the linear map that makes it white, also where samples are missing.

Autoregressive noise e_t = φ₁ e_{t−1} + … + φ_p e_{t−p} + w_t has a covariance Σ with Σ⁻¹ = LᵀL, where L is lower
triangular with p + 1 diagonals. Its first p rows predict from the fewer samples before, so that the likelihood is exact
and no sample is lost. Missing samples are unknowns of the least squares problem: L x is projected onto the complement
of their columns of L, which leaves the same sum of squares as the covariance of the observed samples alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded
from scipy.sparse import diags_array

from rslm.runtime.types import Floats

Flags = NDArray[np.bool_]
LARGEST = 0.999  # partial autocorrelation: with 1, the noise would have no finite variance


@dataclass(frozen=True, eq=False)
class Whitening:
    """The whitening map of one channel."""

    seen: Flags  #: (n,), which samples are observed
    reflections: Floats  #: the partial autocorrelations of the noise, each within (−1, 1); none if it is white

    @property
    def observed(self) -> int:
        return int(self.seen.sum())

    @cached_property
    def predictors(self) -> list[Floats]:
        """The coefficients by which 0, 1, …, p samples before predict the next one (Levinson's recursion)."""
        found: list[Floats] = [np.zeros(0)]
        for k in self.reflections:
            before = found[-1]
            found.append(np.append(before - k * before[::-1], k))
        return found

    @cached_property
    def _starts(self) -> Floats:
        """Variances of the errors of these predictions, in that of the last."""
        rest = 1.0 - self.reflections[::-1] ** 2
        return np.append(1.0 / np.cumprod(rest)[::-1], 1.0)

    @property
    def coefficients(self) -> Floats:
        """φ."""
        return self.predictors[-1]

    def __call__(self, X: NDArray[Any]) -> NDArray[Any]:
        """The whitened columns of X, of n rows; what X holds at missing samples has no effect."""
        if not len(self.reflections):
            return X if self.seen.all() else np.where(self._column(X), X, 0.0)
        white = self._filtered(X if self.seen.all() else np.where(self._column(X), X, 0.0))
        if self.seen.all():
            return white
        columns, factor = self._of_missing
        along = np.asarray(columns.T @ white)
        return np.asarray(white - columns @ cho_solve_banded((factor, True), along, check_finite=False))

    def _column(self, X: NDArray[Any]) -> Flags:
        return self.seen if X.ndim == 1 else self.seen[:, None]

    def _filtered(self, X: NDArray[Any]) -> NDArray[Any]:
        """L X."""
        white = np.array(X)
        for k, c in enumerate(self.coefficients, 1):
            white[k:] -= c * X[:-k]
        for t in range(min(len(self.reflections), len(X))):
            predicted = np.tensordot(self.predictors[t], X[t - 1 :: -1][:t] if t else X[:0], axes=1)
            white[t] = (X[t] - predicted) / np.sqrt(self._starts[t])
        return white

    @cached_property
    def log_determinant(self) -> float:
        """log |Σ| of the observed samples, for innovations of variance 1."""
        p = len(self.reflections)
        total = float(np.log(self._starts[: min(p, len(self.seen))]).sum())
        if p and not self.seen.all():
            total += 2.0 * float(np.log(self._of_missing[1][0]).sum())
        return total

    @cached_property
    def _of_missing(self) -> tuple[Any, Floats]:
        """The columns of L at missing samples, and the banded Cholesky factor of their Gram matrix."""
        n, p = len(self.seen), len(self.reflections)
        bands = [np.ones(n)] + [np.full(max(n - k, 0), -c) for k, c in enumerate(self.coefficients, 1)]
        for t in range(min(p, n)):
            scale = 1.0 / np.sqrt(self._starts[t])
            bands[0][t] = scale
            for k in range(1, p + 1):
                if k <= t:
                    bands[k][t - k] = -scale * self.predictors[t][k - 1]
        kept = [k for k in range(p + 1) if k < n]
        L = diags_array([bands[k] for k in kept], offsets=[-k for k in kept], shape=(n, n)).tocsc()
        columns = L[:, np.flatnonzero(~self.seen)]
        gram = (columns.T @ columns).todia()
        m = columns.shape[1]
        lower = np.zeros((min(p, m - 1) + 1, m))
        for k in range(len(lower)):
            lower[k, : m - k] = gram.diagonal(k)
        return columns, cholesky_banded(lower, lower=True, check_finite=False)


def reflections_of(e: Floats, most: int) -> Floats:
    """Partial autocorrelations of a series with NaN for missing samples, up to a lag of `most` (Burg's method).

    Each is the correlation of the errors of predicting a sample from those after it and from those before it, which is
    always within (−1, 1); the first ones are those of the smaller lags.
    """
    forward, backward = e[1:], e[:-1]
    found: list[float] = []
    for _ in range(min(most, len(e) - 1)):
        both = ~(np.isnan(forward) | np.isnan(backward))
        size = float(np.sum(forward[both] ** 2 + backward[both] ** 2))
        k = 2.0 * float(forward[both] @ backward[both]) / size if size > 0 else 0.0
        found.append(float(np.clip(k, -LARGEST, LARGEST)))
        forward, backward = (forward - found[-1] * backward)[1:], (backward - found[-1] * forward)[:-1]
    return np.array(found)
