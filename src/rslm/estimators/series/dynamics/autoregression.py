"""Autoregressions by their partial correlations κ, all of size below 1: then they are stationary.

By the Levinson recursion, samples are whitened exactly from the first one on: a sample with j < p samples before it is
predicted by the autoregression of order j, whose error has the variance σ² / Π_{i>j} (1 − κ_i²).
"""

from __future__ import annotations

import numpy as np

from rslm.runtime.types import Floats

LARGEST = 0.9999  # partial correlation: the likelihood is infinite at 1


def coefficients(partial: Floats) -> Floats:
    """φ with v_t = Σ_i φ_i v_{t−i} + e_t."""
    return _all_orders(partial)[-1]


def _all_orders(partial: Floats) -> list[Floats]:
    """The coefficients of the orders 0, …, p."""
    found: list[Floats] = [np.zeros(0)]
    for kappa in partial:
        last = found[-1]
        found.append(np.append(last - kappa * last[::-1], kappa))
    return found


def whitened(rows: Floats, partial: Floats) -> Floats:
    """The innovations of the rows, in units of those after the first p samples."""
    p = len(partial)
    if p == 0:
        return rows
    orders = _all_orders(partial)
    found = rows.copy()
    for i, phi in enumerate(orders[-1], start=1):
        found[:, i:] -= phi * rows[:, :-i]
    shrink = np.sqrt(np.append(np.cumprod((1 - partial**2)[::-1])[::-1], 1.0))
    for j in range(min(p, rows.shape[1])):
        found[:, j] = shrink[j] * (rows[:, j] - rows[:, :j][:, ::-1] @ orders[j])
    return found


def log_determinant(partial: Floats) -> float:
    """Of the covariance matrix of any number of samples ≥ p, divided by the variance of innovations."""
    return -float(np.arange(1, len(partial) + 1) @ np.log1p(-(partial**2)))


def burg(v: Floats, most: int) -> tuple[Floats, Floats]:
    """Partial correlations of the orders 1, …, `most`, and the mean squared innovations of the orders 0, …, `most`."""
    ahead, behind = v[1:].copy(), v[:-1].copy()
    found, power = np.zeros(most), np.empty(most + 1)
    power[0] = float(np.mean(v**2))
    for k in range(most):
        total = float(ahead @ ahead + behind @ behind)
        if total <= 0.0 or len(ahead) < 2:
            power[k + 1 :] = power[k]
            break
        found[k] = np.clip(2.0 * float(ahead @ behind) / total, -LARGEST, LARGEST)
        power[k + 1] = power[k] * (1 - found[k] ** 2)
        ahead, behind = (ahead - found[k] * behind)[1:], (behind - found[k] * ahead)[:-1]
    return found, power
