"""Forecasts of an estimate, and their variances: from innovations, coefficients, memories and autoregression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rslm.estimators.series.dynamics import autoregression
from rslm.estimators.series.dynamics.estimate import Estimate, moved_inwards, translated
from rslm.estimators.series.dynamics.gaps import rows_of_gaps
from rslm.estimators.series.dynamics.innovations import Likelihood, basis, filtered, responses, sections
from rslm.runtime.types import Floats


@dataclass(frozen=True)
class Prediction:
    ahead: Floats
    variance: Floats


def predict(estimate: Estimate, steps: int) -> Prediction:
    likelihood, u = estimate.likelihood, estimate.unknowns
    ahead = _ahead(likelihood, u, steps)
    variance = estimate.variance * np.cumsum(impulse_response(estimate, steps) ** 2)
    variance = variance + _from_coefficients(estimate, steps)
    if len(u):
        moves = np.empty((len(u), steps))
        for k in range(len(u)):
            moved = moved_inwards(u, k)
            moves[k] = (_ahead(likelihood, moved, steps) - ahead) / (moved[k] - u[k])
        unit = np.sum(estimate.found.scaled**2) / estimate.likelihood.observed
        J = estimate.jacobian / np.sqrt(max(unit, np.finfo(float).tiny))
        # Far from 0 the unknowns hardly matter, and nothing is known of them: their standard deviation is at most 1.
        covariance = np.linalg.inv(J.T @ J + np.eye(len(u)))
        variance = variance + np.sum(moves * (covariance @ moves), axis=0)
    return Prediction(ahead, variance)


def _ahead(likelihood: Likelihood, unknowns: Floats, steps: int) -> Floats:
    memories, partial = translated(likelihood, unknowns)
    found = likelihood.evaluate(memories, partial)
    filters, n = sections(likelihood.groups, memories), likelihood.n
    exponentials = found.coefficients @ basis(likelihood.groups, n, n + steps)
    noise = filtered(filters, likelihood.filled(found) - exponentials[:n])
    innovations = noise.copy()
    for i, phi in enumerate(autoregression.coefficients(partial), start=1):
        innovations[i:] -= phi * noise[:-i]
    of_noise = responses(filters, partial, np.append(innovations, np.zeros(steps)))[n:]
    return np.asarray(of_noise + exponentials[n:])


def impulse_response(estimate: Estimate, steps: int) -> Floats:
    """ψ_0, …, ψ_{steps − 1}."""
    filters = sections(estimate.likelihood.groups, estimate.memories)
    impulse = np.zeros(steps)
    impulse[0] = 1.0
    return responses(filters, estimate.partial, impulse)


def _from_coefficients(estimate: Estimate, steps: int) -> Floats:
    """Variances due to the coefficients of exponentials and the missing samples."""
    likelihood, n, partial = estimate.likelihood, estimate.likelihood.n, estimate.partial
    filters = sections(likelihood.groups, estimate.memories)
    exponentials = filtered(filters, basis(likelihood.groups, n, n + steps))
    rows = autoregression.whitened(exponentials, partial)
    if len(likelihood.missing):
        impulse = filtered(filters, np.eye(1, n + steps))[0]
        rows = np.concatenate([rows_of_gaps(likelihood.missing, impulse, partial), rows])
    R = np.linalg.qr(rows[:, :n].T, mode="r")
    future = responses(filters, partial, rows[:, n:])
    spread = future.T @ np.linalg.pinv(R, rcond=1e-10)
    return np.asarray(estimate.variance * np.sum(spread**2, axis=1))
