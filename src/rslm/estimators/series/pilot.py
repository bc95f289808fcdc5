"""Quick fits of all orders, as starts and to choose an order.

Windows have several lengths, because short ones resolve quick decay and long ones slow oscillations. For each length,
the column space of the Hankel matrix gives poles for every order, and least squares gives the amplitudes. The best fit
of every order is kept. Missing samples are interpolated first, which suits slow series, or set to zero, which suits
quick ones; then they are filled with the best fit so far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rslm.estimators.series.exponentials import fit_modes, left_space, poles_of
from rslm.estimators.series.orders import GROWTH, best_order, is_exact, too_steep
from rslm.kernels import Stopped
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats
from rslm.structures import Hankel

SHORTEST, LONGER = 8, 4  # the shortest window, and the factor from one window to the next
FILLINGS = 5  # how often missing samples are filled


@dataclass(frozen=True)
class Pilot:
    """Signals of the orders 0, 1, …, and their sums of squared residuals."""

    signals: list[Floats]
    squares: Floats


def pilot_fits(Y: Floats, largest: int, to_fill: int = 0) -> Pilot:
    """Fit Y, of shape (channels, n) with NaN for missing samples, with every order up to the `largest`.

    Missing samples are filled with orders up to `to_fill`: filling with too small an order would spoil the next fits.
    If time runs out, some orders keep a signal of zero.
    """
    if not np.isnan(Y).any():
        return quick_fits(Y, Y, largest, 1)
    most = max(largest, to_fill)
    one, other = quick_fits(Y, interpolated(Y), most, FILLINGS), quick_fits(Y, np.nan_to_num(Y), most, FILLINGS)
    first = one.squares <= other.squares
    signals = [a if f else b for f, a, b in zip(first, one.signals, other.signals, strict=True)]
    return Pilot(signals[: largest + 1], np.minimum(one.squares, other.squares)[: largest + 1])


def quick_fits(Y: Floats, filled: Floats, largest: int, fillings: int = 1) -> Pilot:
    """Fit Y with the poles of `filled`, which is Y without missing samples; the best fit then fills them again."""
    missing = np.isnan(Y)
    signals: list[Floats] = [np.zeros_like(Y)] * (largest + 1)
    squares = np.full(largest + 1, np.nansum(Y**2))
    for _ in range(fillings):
        try:
            for window in _windows(Y.shape[1]):
                _improve(Y, filled, window, signals, squares)
        except Stopped:  # use what was found so far
            break
        best = signals[best_order(squares, int((~missing).sum()), len(Y))]
        filled = np.where(missing, best, Y)
    return Pilot(signals, squares)


def _windows(n: int) -> list[int]:
    longest = (n + 1) // 2
    windows = [min(SHORTEST, longest)]
    while windows[-1] * LONGER < longest:
        windows.append(windows[-1] * LONGER)
    return [*windows, longest] if windows[-1] < longest else windows


def _improve(Y: Floats, filled: Floats, window: int, signals: list[Floats], squares: Floats) -> None:
    """Replace the fits of those orders for which this window gives a better fit."""
    channels, n = Y.shape
    structure = Hankel(window, n - window + 1, channels)
    most = min(len(squares) - 1, *(side - 1 for side in structure.shape))
    if most < 1:
        return
    raise_if_stopped()
    P = left_space(structure, filled.ravel(), most)[0]
    for order in range(1, most + 1):
        raise_if_stopped()
        poles = poles_of(P[:, :order])
        signal = fit_modes(poles, Y)[1]
        left = float(np.nansum((Y - signal) ** 2))
        if too_steep(poles, n) and not is_exact(left, squares[0]):
            slower = poles * (GROWTH ** (1.0 / n) / np.maximum(np.abs(poles), GROWTH ** (1.0 / n)))
            signal = fit_modes(slower, Y)[1]
            left = float(np.nansum((Y - signal) ** 2))
        if left < squares[order]:
            signals[order], squares[order] = signal, left


def interpolated(Y: Floats) -> Floats:
    """Y with missing samples on lines between their neighbours."""
    if np.iscomplexobj(Y):
        return np.asarray(interpolated(Y.real) + 1j * interpolated(Y.imag))
    t, filled = np.arange(Y.shape[1]), Y.copy()
    for y in filled:
        seen = ~np.isnan(y)
        y[~seen] = np.interp(t[~seen], t[seen], y[seen]) if seen.any() else 0.0
    return filled
