"""Observability matrices [C; CA; CA²; …] from a record without missing samples, without iterations.

Their columns span a space that does not depend on the coordinates of the states. The leading columns of what these
functions return span it, for every order.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from rslm.estimators.series.systems.pairs import Pair, pair_of
from rslm.runtime.types import Floats

DEPENDENT = 1e-10  # relative singular value of regressors below which they count as dependent


def from_windows(Y: Floats, U: Floats, window: int) -> Floats:
    """From windows of the outputs (PO-MOESP), (window × outputs, columns).

    A window is observability matrix × state, plus what the inputs in the window cause, plus noise. The inputs in the
    window are projected out; the rest is projected onto the inputs and outputs before the window, which know the state
    but not the noise.
    """
    past = np.concatenate([_windows(U[:, :-window], window), _windows(Y[:, :-window], window)], axis=1)
    future_U, future_Y = _windows(U[:, window:], window), _windows(Y[:, window:], window)
    R = np.asarray(np.linalg.qr(np.concatenate([future_U, past, future_Y], axis=1), mode="r")).T
    first, last = future_U.shape[1], future_Y.shape[1]
    return np.asarray(np.linalg.svd(R[-last:, first : len(R) - last], full_matrices=False)[0])


def from_impulse_response(Y: Floats, U: Floats, window: int, lags: int) -> Floats:
    """From the Hankel matrix of the impulse response, which has low rank, (window × outputs, columns).

    The impulse response is that of a long autoregression, y(t) = Σ_k F_k y(t − k) + G_k u(t − k) + noise, which also
    describes coloured noise.
    """
    g = _long_autoregression(Y, U, lags, 2 * window - 1)
    outputs, inputs = g.shape[1:]
    at = np.add.outer(np.arange(window), np.arange(window))
    H = g[at].transpose(0, 2, 1, 3).reshape(window * outputs, window * inputs)
    return np.asarray(np.linalg.svd(H, full_matrices=False)[0])


def _long_autoregression(Y: Floats, U: Floats, lags: int, steps: int) -> Floats:
    """The impulse response from the first sample after the impulse on, (steps, outputs, inputs)."""
    outputs = len(Y)
    before = _windows(np.concatenate([Y, U])[:, :-1], lags)
    regressors = np.concatenate([before, U[:, lags:].T], axis=1)
    found = np.linalg.lstsq(regressors, Y[:, lags:].T, rcond=DEPENDENT)[0].T
    by_lag = found[:, : before.shape[1]].reshape(outputs, lags, -1)[:, ::-1].transpose(1, 0, 2)
    F, G = by_lag[:, :, :outputs], by_lag[:, :, outputs:]
    g = np.zeros((steps + 1, outputs, len(U)))
    g[0] = found[:, before.shape[1] :]
    g[1 : lags + 1] = G[:steps]
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(1, steps + 1):
            earlier = g[max(t - lags, 0) : t][::-1]
            g[t] += np.einsum("kab,kbi->ai", F[: len(earlier)], earlier)
    return np.nan_to_num(g[1:], posinf=0.0, neginf=0.0)


def pair_from(space: Floats, order: int, outputs: int, radius: float) -> Pair:
    """The pair of an order from the leading columns of an observability matrix."""
    columns = space[:, :order]
    A = np.linalg.lstsq(columns[:-outputs], columns[outputs:], rcond=None)[0]
    return pair_of(A, columns[:outputs], radius)


def _windows(X: Floats, window: int) -> Floats:
    """Windows in rows, (n − window + 1, window × channels), one time after the other."""
    return sliding_window_view(X, window, axis=1).transpose(1, 2, 0).reshape(X.shape[1] - window + 1, -1)
