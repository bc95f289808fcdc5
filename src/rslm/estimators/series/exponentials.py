"""Poles, amplitudes and forecasts from the column space of a Hankel matrix.

The windows of a sum of k exponentials span a space of dimension k, which is invariant under a shift by one sample: with
a basis P of that space, P[1:] = P[:-1] F for a k × k matrix F, whose eigenvalues are the poles z_j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.linalg import lstsq
from scipy.sparse.linalg import LinearOperator, eigsh

from rslm.linalg.blocked_qr import BLOCK, reduced
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats
from rslm.structures import Hankel

Complexes = NDArray[np.complexfloating[Any, Any]]

DENSE = 128  # longest window for which W Wᵀ is formed
PASSES = 2  # over the windows, so that small singular values are not lost in the squares of large ones
SEPARATE = 1e-10  # relative singular value of a basis of exponentials below which it counts as rank-deficient


def left_space(structure: Hankel, h: Floats, rank: int) -> tuple[Floats, Floats]:
    """The leading left singular vectors of the Hankel matrix of h, and its singular values."""
    d = structure.shape[0]

    def gram(X: Floats) -> Floats:
        raise_if_stopped()
        return structure.times(h, structure.transposed_times(h, X))

    if d <= DENSE or rank >= d - 1:
        P = np.linalg.eigh(_gram_of_windows(structure, h))[1][:, : -rank - 1 : -1]
    else:
        start = np.random.default_rng(0).standard_normal(d)
        operator = LinearOperator((d, d), matvec=lambda x: gram(x.reshape(d, 1))[:, 0], dtype=np.float64)
        P = eigsh(operator, k=rank, which="LA", v0=start, tol=1e-6)[1][:, ::-1]
    for _ in range(PASSES):
        raise_if_stopped()
        Q = np.linalg.qr(structure.transposed_times(h, P))[0]
        left, s, _ = np.linalg.svd(structure.times(h, Q), full_matrices=False)
        P = left
    return P, s


def _gram_of_windows(structure: Hankel, h: Floats) -> Floats:
    """W Wᵀ by products of the windows themselves, some at a time: for short windows this is faster than FFTs."""
    d = structure.window
    total = np.zeros((d, d))
    for series in h.reshape(structure.channels, structure.samples):
        windows = sliding_window_view(series, d)
        for k in range(0, len(windows), step := max(BLOCK // d, 1)):
            raise_if_stopped()
            some = np.ascontiguousarray(windows[k : k + step])
            total += some.T @ some
    return total


def shift(P: Floats) -> Floats:
    """F with P[1:] ≈ P[:-1] F."""
    if P.shape[1] == 0:
        return np.zeros((0, 0))
    return np.asarray(lstsq(P[:-1], P[1:], lapack_driver="gelsy")[0])


def poles_of(P: Floats) -> Complexes:
    """The poles of a series whose windows are spanned by P."""
    return np.linalg.eigvals(shift(P)).astype(np.complex128)


@dataclass(frozen=True)
class Modes:
    """Poles with their amplitudes in every channel: the signal is Σ_j amplitudes[j, c] poles[j]^t."""

    poles: Complexes  #: (k,)
    amplitudes: Complexes  #: (k, channels)


def sensitivities(poles: Complexes, n: int, ahead: int) -> Complexes:
    """The derivatives of n samples, and of those `ahead`, by amplitudes and poles, up to factors: z^t and t z^t."""
    t = np.arange(n + ahead)[:, None] / n
    B = _basis(poles, n + ahead)
    return np.hstack([B, t * B])


def growth_of_errors(poles: Complexes, seen: NDArray[np.bool_], steps: int) -> Floats:
    """Standard deviations of forecasts in those of the noise, (steps, channels): from noise, amplitudes and poles.

    Noise is white.
    """
    channels, n = seen.shape
    if not len(poles):
        return np.ones((steps, channels))
    J = sensitivities(poles, n, steps)
    different, which = np.unique(seen, axis=0, return_inverse=True)
    variances = np.empty((steps, len(different)))
    for c, known in enumerate(different):
        R = reduced(J[:n][known], np.zeros((int(known.sum()), 0)))[0]
        of_modes = J[n:] @ np.linalg.pinv(R, rcond=1e-10)  # rows have the same norms as with pinv(J), for J = QR
        variances[:, c] = 1.0 + np.sum(np.abs(of_modes) ** 2, axis=1)
    return np.asarray(np.sqrt(variances)[:, which.ravel()])


def fit_modes(poles: Complexes, Y: Floats) -> tuple[Modes, Floats]:
    """The amplitudes that best fit the observed samples of Y, of shape (channels, n), and the signal of that shape."""
    poles = np.asarray(poles, dtype=np.complex128)
    n = Y.shape[1]
    B, scale = _basis(poles, n), _scale(poles, n)
    seen = ~np.isnan(Y)
    if (seen == seen[0]).all():
        found = _least_squares(B[seen[0]], Y[:, seen[0]].T)
    else:
        found = np.stack([_least_squares(B[s], y[s]) for s, y in zip(seen, Y, strict=True)], axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        amplitudes = np.nan_to_num(found / scale[:, None])  # 0 if the scale of a growing exponential overflows
    return Modes(poles, amplitudes), np.ascontiguousarray((B @ found).real.T)


def _least_squares(B: Complexes, y: Floats) -> Complexes:
    if B.shape[1] == 0:
        return np.zeros((0, *y.shape[1:]), dtype=np.complex128)
    R, z, _ = reduced(B, y)
    return np.asarray(lstsq(R, z, cond=SEPARATE, lapack_driver="gelsy")[0])


def _basis(poles: Complexes, n: int) -> Complexes:
    """z^t, and z^(t − n + 1) for growing exponentials, so that no entry is larger than 1."""
    growing = np.abs(poles) > 1
    B = powers(np.where(growing, 1.0 / np.where(growing, poles, 1.0), poles), n)
    B[:, growing] = B[::-1, growing]
    return B


def powers(z: Complexes, n: int) -> Complexes:
    """z^0 … z^(n − 1) in columns, by doubling, which is 50 times as fast as computing each complex power."""
    B = np.ones((n, len(z)), dtype=np.complex128)
    done, factor = 1, z.copy()
    with np.errstate(under="ignore"):
        while done < n:
            more = min(done, n - done)
            B[done : done + more] = B[:more] * factor
            done, factor = done + more, factor * factor
    return B


def _scale(poles: Complexes, n: int) -> Complexes:
    """The factors by which the columns of `_basis` must be multiplied to get z^t."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.where(np.abs(poles) > 1, poles, 1.0) ** (n - 1))
