"""Products with the Hankel matrix H(y) of a series by FFT: `window` rows, entries y[i + j]."""

from __future__ import annotations

import numpy as np
from scipy import fft
from scipy.sparse.linalg import LinearOperator, svds

from rslm.runtime.types import Floats


def counts(n: int, window: int) -> Floats:
    """How often each sample occurs in the matrix: H*(H(y)) = counts · y."""
    k = np.arange(n)
    return np.minimum(np.minimum(k + 1, n - k), min(window, n - window + 1)).astype(np.float64)


def matrix(y: Floats, window: int) -> Floats:
    """H(y) as a view of y."""
    return np.lib.stride_tricks.sliding_window_view(y, len(y) - window + 1)


def times(y: Floats, X: Floats) -> Floats:
    """H(y) X. H(y)ᵀ is a Hankel matrix of y too, so this is H(y)ᵀ X if X has as many rows as H(y)."""
    size = fft.next_fast_len(len(y), real=True)  # i + j < n, so nothing wraps around
    spectra = fft.rfft(y, size)[:, None] * fft.rfft(X, size, axis=0).conj()
    return np.asarray(fft.irfft(spectra, size, axis=0)[: len(y) - len(X) + 1])


def adjoint(left: Floats, right: Floats) -> Floats:
    """H*(left @ right.T): the sums along its antidiagonals."""
    n = len(left) + len(right) - 1
    size = fft.next_fast_len(n, real=True)
    spectra = np.sum(fft.rfft(left, size, axis=0) * fft.rfft(right, size, axis=0), axis=1)
    return np.asarray(fft.irfft(spectra, size)[:n])


def singular_triplets(
    y: Floats, window: int, count: int, left: Floats | None = None, right: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """The largest singular values s of H(y) + left @ right.T, and their vectors: P, s, Q, the largest first."""
    shape = window, len(y) - window + 1
    A = np.zeros((shape[0], 0)) if left is None else left
    B = np.zeros((shape[1], 0)) if right is None else right
    operator = LinearOperator(
        shape,
        matvec=lambda x: times(y, x.reshape(-1, 1))[:, 0] + A @ (B.T @ x.ravel()),
        rmatvec=lambda x: times(y, x.reshape(-1, 1))[:, 0] + B @ (A.T @ x.ravel()),
        dtype=np.float64,
    )
    first = np.random.default_rng(0).standard_normal(min(shape))
    P, s, Qt = svds(operator, count, v0=first, tol=1e-4)
    order = np.argsort(s)[::-1]
    return np.asarray(P[:, order]), np.asarray(s[order], np.float64), np.asarray(Qt[order].T)


class Bracket:
    """Search for the regularisation whose solution has a given rank, on a logarithmic scale.

    `next` is the weight to try; the rank is smaller where the weight is larger.
    """

    def __init__(self, guess: float, step: float) -> None:
        self.next, self.step = guess, step
        self.low, self.high = 0.0, np.inf

    def tell(self, rank: int, wanted: int) -> None:
        if rank > wanted:
            self.low = self.next
        else:
            self.high = self.next
        if self.low > 0 and self.high < np.inf:
            self.next = float(np.sqrt(self.low * self.high))
        else:
            self.next *= self.step if self.low > 0 else 1 / self.step
