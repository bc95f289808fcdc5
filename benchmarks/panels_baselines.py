"""What the benchmark of panels compares with: each returns the average effect on the treated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

HEAVY = 1e3  # weight of the row that makes weights of a synthetic control sum to 1


def _demeaned(Y: Array, seen: Mask) -> Array:
    """Unit plus period effects at all entries, by least squares over those that are seen."""
    n, T = Y.shape
    i, t = np.nonzero(seen)
    design = np.zeros((len(i), n + T))
    design[np.arange(len(i)), i] = design[np.arange(len(i)), n + t] = 1.0
    found = np.linalg.lstsq(design, Y[i, t], rcond=None)[0]
    return np.asarray(found[:n, None] + found[n:])


def difference_in_differences(Y: Array, treated: Mask) -> float:
    """By imputation: unit and period effects of untreated entries."""
    return float((Y - _demeaned(Y, ~treated))[treated].mean())


def synthetic_control(Y: Array, treated: Mask) -> float:
    """For each treated unit, never-treated ones with weights ≥ 0 that sum to 1 and fit the periods before, demeaned."""
    donors = Y[~treated.any(axis=1)]
    effects = []
    for y, on in zip(Y[treated.any(axis=1)], treated[treated.any(axis=1)], strict=True):
        base, own = donors - donors[:, ~on].mean(axis=1, keepdims=True), y - y[~on].mean()
        A = np.vstack([base[:, ~on].T, HEAVY * np.ones(len(base))])
        weights = nnls(A, np.append(own[~on], HEAVY))[0]
        effects.append((own - weights @ base)[on])
    return float(np.concatenate(effects).mean())


def soft_impute(Y: Array, treated: Mask, lam: float, steps: int = 100) -> float:
    """MC-NNM by soft-impute from 0, with effects and W in turns and no test of optimality."""
    seen, W = ~treated, np.zeros_like(Y)
    effects = _demeaned(Y, seen)
    rows = np.maximum(seen.sum(axis=1, keepdims=True), 1)
    columns = np.maximum(seen.sum(axis=0), 1)
    units, periods = np.zeros((len(Y), 1)), np.zeros(Y.shape[1])
    for _ in range(steps):
        units = np.where(seen, Y - W - periods, 0.0).sum(axis=1, keepdims=True) / rows
        periods = np.where(seen, Y - W - units, 0.0).sum(axis=0) / columns
        effects = units + periods
        u, s, vt = np.linalg.svd(np.where(seen, Y - effects, W), full_matrices=False)
        W = (u * np.maximum(s - 0.5 * lam, 0.0)) @ vt
    return float((Y - W - effects)[treated].mean())
