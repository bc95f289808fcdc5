"""Fits that spikes do not spoil: without the spikes, and with weights for the other samples.

A loss ℓ of residuals r is minimised by least squares with the weights −ℓ'(r) / 2r, again and again: each round lowers
the loss, for losses that grow more slowly than the square.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rslm.estimators.series.likelihood import EXACT, Scored, channels_of, scored
from rslm.estimators.series.variable_projection import refined
from rslm.losses import Loss
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats

ROUNDS = 50
SETTLED = 1e-6  # relative change of the signal at which the rounds end
LEAST = 1e-3  # residuals count as at least this part of the noise, because some losses have a kink at 0
STEPS = 5  # of a fit with the same weights


def reweighted(Y: Floats, found: Scored, loss: Loss, scale: float, slowest: float) -> Scored:
    """The fit with a loss instead of squares; Y has NaN for missing samples and spikes, in units of `scale`.

    Residuals of a channel with more noise than others count in proportion: the loss is that of a channel with the mean
    noise.
    """
    fit, squares = found.fit, np.nanmean((Y - found.fit.signal) ** 2, axis=1)
    size = math.sqrt(float(squares.mean())) or np.finfo(float).tiny
    ratios = np.maximum(np.sqrt(squares) / size, EXACT)
    data = channels_of(Y, sizes=ratios)
    for _ in range(ROUNDS):
        raise_if_stopped()
        left = np.where(np.isnan(Y), 0.0, Y - fit.signal) / ratios[:, None]
        far = np.where(left < 0, -1.0, 1.0) * np.maximum(np.abs(left), LEAST * size)
        weights = -loss.gradient(far * scale, np.zeros_like(far)) / (2.0 * scale * far)
        weights = np.where(np.isnan(Y), 0.0, np.maximum(weights, 0.0))
        before = fit.signal
        weighted = replace(data, weights=weights / max(float(weights.max()), np.finfo(float).tiny))
        fit = refined(weighted, fit.modes, tol=1e-10, most_steps=STEPS, slowest=slowest)
        if float(np.linalg.norm(fit.signal - before)) <= SETTLED * float(np.linalg.norm(fit.signal)):
            break
    return scored(Y, fit)
