"""A preconditioner for the system of a Hankel structure whose samples are observed.

Far from both ends of the series A is a Toeplitz matrix, whose inverse is close to that of a circulant matrix F; the
diagonal of A, which is smaller near the ends, is matched by scaling. This fails along the series for which A is almost
singular: those whose windows are in the span of U, sums of exponentials z^t with poles z that follow from U, and next
to them t·z^t. On the span of an orthonormal basis Z of these the system is solved exactly:

    B⁻¹ = Z E⁻¹Zᵀ + (I − Z E⁻¹ZᵀA) F⁻¹ (I − A Z E⁻¹Zᵀ),   E = ZᵀA Z,

which is symmetric and positive definite. The number of steps hardly depends on δ and on the window.
"""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.linalg import cho_factor, cho_solve

from rslm.inner.linear.banded import different_channels
from rslm.inner.linear.systems import Theta, penalty_product
from rslm.linalg.exponentials import exponential_space
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats
from rslm.structures import Hankel

LEAST = 0.03  # of the eigenvalues of F without the loss, relative to the largest: Z has what is below


class Deflated:
    """x ↦ B⁻¹x. Channels are blocks of A that differ in the diagonal of the loss only."""

    def __init__(self, structure: Hankel, of_loss: Floats, theta: Theta) -> None:
        one = Hankel(structure.window, structure.windows)
        by_channel = of_loss.reshape(structure.channels, -1)
        d, n = one.window, one.samples
        spanned = theta.within >= 0.5  # s² ≥ δ; the other columns of U hardly matter
        self._Z = exponential_space(theta.Q[:, spanned], n)
        product = penalty_product(one, theta)
        of_penalty = np.empty_like(self._Z)
        for k in range(self._Z.shape[1]):
            raise_if_stopped()
            of_penalty[:, k] = product(self._Z[:, k])
        different, self._which = different_channels(by_channel)
        self._AZ = [of_penalty + by_channel[c][:, None] * self._Z for c in different]
        self._E = [cho_factor(_definite(self._Z.T @ AZ)) for AZ in self._AZ]
        self._length = next_fast_len(n, real=True)
        powers = np.abs(rfft(np.ascontiguousarray(theta.Q.T), self._length)) ** 2
        outside = np.maximum(
            1.0 - theta.within @ powers / d, LEAST
        )  # of every frequency: its part that Q does not span
        usual = float(by_channel.mean())
        self._eigenvalues: Floats = usual + one.counts.max() * outside / theta.delta
        self._scale = np.sqrt((usual + one.counts.max() / theta.delta) / (by_channel + one.counts / theta.delta))

    def __call__(self, x: Floats) -> Floats:
        pieces = x.reshape(self._scale.shape)
        return np.concatenate([self._of_channel(c, piece) for c, piece in enumerate(pieces)])

    def _circulant(self, scale: Floats, x: Floats) -> Floats:
        return np.asarray(scale * irfft(rfft(scale * x, self._length) / self._eigenvalues, self._length)[: len(x)])

    def _of_channel(self, channel: int, x: Floats) -> Floats:
        Z, AZ, E = self._Z, self._AZ[self._which[channel]], self._E[self._which[channel]]
        if not Z.shape[1]:
            return self._circulant(self._scale[channel], x)
        inside = cho_solve(E, Z.T @ x)
        outside = self._circulant(self._scale[channel], x - AZ @ inside)
        return np.asarray(outside + Z @ (inside - cho_solve(E, AZ.T @ outside)))


def _definite(E: Floats) -> Floats:
    """E with a diagonal that is larger by its rounding errors, which may be larger than its least eigenvalue."""
    return np.asarray(E + len(E) * np.finfo(float).eps * np.trace(E) * np.eye(len(E)))
