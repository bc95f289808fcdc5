"""Poles from the column space of a Hankel matrix, for real and complex series.

The windows of a sum of k exponentials span a space of dimension k, which is invariant under a shift by one sample: with
a basis P of that space, P[1:] = P[:-1] F for a k × k matrix F, whose eigenvalues are the poles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.fft import fft, ifft, irfft, next_fast_len, rfft
from scipy.linalg import lstsq
from scipy.sparse.linalg import LinearOperator, eigsh

from rslm.estimators.series.modes import Complexes
from rslm.linalg.blocked_qr import BLOCK
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats

Product = Callable[[NDArray[Any]], NDArray[Any]]

DENSE = 160  # longest window for which the Gram matrix of the windows is formed
LONG = 8  # windows in a series from which products are computed from its ends
PASSES = 2  # over the windows, so that small singular values are not lost in the squares of large ones
ACCURATE = 1e-6  # relative accuracy of the squares of singular values; poles are refined later


def leading_space(Y: NDArray[Any], window: int, rank: int) -> NDArray[Any]:
    """The leading left singular vectors of the Hankel matrices H of the channels, side by side: (window, rank)."""
    if window <= DENSE or rank >= window - 1:
        return np.asarray(np.linalg.eigh(gram_of_windows(Y, window))[1][:, : -rank - 1 : -1])
    product = _by_ends(Y, window) if Y.shape[1] > LONG * window else _by_windows(Y, window)
    start = np.random.default_rng(0).standard_normal(window).astype(Y.dtype)
    operator = LinearOperator((window, window), matvec=product, dtype=Y.dtype)
    return np.asarray(eigsh(operator, k=rank, which="LA", v0=start, tol=ACCURATE)[1][:, ::-1])


def _by_windows(Y: NDArray[Any], window: int) -> Product:
    """x ↦ H Hᴴx: with c = conj(Hᴴx), both products are correlations, by FFTs as long as the series."""
    n, is_complex = Y.shape[1], np.iscomplexobj(Y)
    length, windows = next_fast_len(n, real=not is_complex), n - window + 1
    forward: Any = fft if is_complex else rfft
    back: Any = ifft if is_complex else irfft
    transform = forward(Y, length)

    def product(x: NDArray[Any]) -> NDArray[Any]:
        raise_if_stopped()
        c: NDArray[Any] = back(transform * forward(x.ravel(), length).conj(), length)[:, :windows]
        return np.asarray(back(np.sum(transform * forward(c, length).conj(), axis=0), length)[:window])

    return product


def _by_ends(Y: NDArray[Any], window: int) -> Product:
    """x ↦ H Hᴴx by FFTs of twice the window, for long series.

    The windows of the series with zeros before and after it have a Toeplitz matrix of products. It differs from H Hᴴ by
    the windows that overlap an end: their matrices are again Hankel, with the first or the last samples and zeros.
    """
    is_complex, edge = np.iscomplexobj(Y), window - 1
    zeros = np.zeros((len(Y), edge), dtype=Y.dtype)
    ends = np.concatenate([np.hstack([zeros, Y[:, :edge]]), np.hstack([Y[:, -edge:], zeros])])
    of_ends = _by_windows(ends, window)
    n = Y.shape[1]
    long, length = next_fast_len(n + window, real=not is_complex), next_fast_len(2 * window, real=not is_complex)
    forward, back = (fft, ifft) if is_complex else (rfft, irfft)
    spectrum = np.sum(np.abs(forward(Y, long)) ** 2, axis=0)
    lags = back(spectrum, long)
    around = np.zeros(length, dtype=Y.dtype)
    around[:window], around[-edge:] = lags[:window], lags[-edge:]
    transform = forward(around, length)

    def product(x: NDArray[Any]) -> NDArray[Any]:
        whole = back(transform * forward(x.ravel(), length), length)[:window]
        return np.asarray(whole - of_ends(x))

    return product


def singular_space(Y: NDArray[Any], window: int, rank: int) -> tuple[NDArray[Any], Floats]:
    """The leading left singular vectors of the same matrix, and its singular values, small ones accurately too.

    Squares of small singular values are lost in those of large ones, so the vectors are refined by two passes over the
    windows.
    """
    P = leading_space(Y, window, rank)
    s = np.zeros(rank)
    for _ in range(PASSES):
        Q = np.linalg.qr(np.concatenate([_products(series, P.conj()) for series in Y]).conj())[0]
        pieces = np.split(Q, len(Y))
        P, s, _ = np.linalg.svd(sum(_across(series, q, window) for series, q in zip(Y, pieces, strict=True)), False)
    return P, s


def _products(series: NDArray[Any], X: NDArray[Any]) -> NDArray[Any]:
    """HᵀX for the Hankel matrix H of a series, some windows at a time."""
    windows = sliding_window_view(series, len(X))
    step = max(BLOCK // len(X), 1)
    return np.concatenate([_looked(windows[k : k + step]) @ X for k in range(0, len(windows), step)])


def _across(series: NDArray[Any], X: NDArray[Any], window: int) -> NDArray[Any]:
    """H X."""
    windows = sliding_window_view(series, window)
    step = max(BLOCK // window, 1)
    return np.asarray(sum(_looked(windows[k : k + step]).T @ X[k : k + step] for k in range(0, len(windows), step)))


def _looked(windows: NDArray[Any]) -> NDArray[Any]:
    raise_if_stopped()
    return np.ascontiguousarray(windows)


def gram_of_windows(Y: NDArray[Any], window: int) -> NDArray[Any]:
    """H Hᴴ: its first row is a correlation, and every other row differs from the one before by products of the ends."""
    total = np.zeros((window, window), dtype=Y.dtype)
    last = Y.shape[1] - window
    for series in Y:
        raise_if_stopped()
        row = np.correlate(series, series[: last + 1], "valid").conj()
        G = np.zeros_like(total)
        for k in range(window):
            G[k, k:] = row
            head, tail = slice(k, window - 1), slice(last + 1 + k, last + window)
            row = row[:-1] + series[last + 1 + k : last + 2 + k] * series[tail].conj() - series[k] * series[head].conj()
        total += G
    return total + np.triu(total, 1).conj().T


def poles_of(P: NDArray[Any]) -> Complexes:
    """The poles of a series whose windows are spanned by the columns of P."""
    if P.shape[1] == 0:
        return np.zeros(0, dtype=np.complex128)
    shift = lstsq(P[:-1], P[1:], lapack_driver="gelsy")[0]
    return np.asarray(np.linalg.eigvals(shift), dtype=np.complex128)
