"""Default parameters that depend on the size and the units of the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rslm.estimators.choices import as_loss
from rslm.estimators.medians import median
from rslm.losses import Loss
from rslm.runtime.types import Floats

PER_SIZE = 0.3  # C of the square loss, relative to √(n_samples · n_features): suits ratings with weighting 0.5
SAMPLE = 100_000  # maximum number of entries used for estimates, about
NORMAL = 1.4826  # standard deviation of a normal x, relative to the median of |x|
TYPICAL = 0.5  # size of a typical error, relative to the spread of the data
WIDTH = 0.2  # parameter of the Huber and ε-insensitive losses, relative to the spread of the data


def usual_C(shape: tuple[int, int], values: Floats, loss: Loss) -> float:
    """C for a matrix of this size; a typical error has the same weighted gradient as with the square loss."""
    C = PER_SIZE * float(np.sqrt(shape[0] * shape[1]))
    if loss.binary:
        return C
    error = TYPICAL * spread(values)
    pull = float(np.mean(np.abs(loss.gradient(np.array([-error, error]), np.zeros(2)))))
    return C * 2.0 * error / pull if pull > 0 and np.isfinite(pull) else C


def needs_width(given: Any) -> bool:
    """Whether a loss is given by its name alone, and has a parameter in the units of the data."""
    return isinstance(given, str) and given in ("huber", "epsilon_insensitive")


def loss_for(given: Any, values: Callable[[], Floats], weights: Floats | None = None) -> Loss:
    """The loss that was given; one that needs a width and has none gets one that suits these values."""
    return as_loss(f"{given}:{WIDTH * spread(values(), weights)!r}") if needs_width(given) else as_loss(given)


def spread(values: Floats, weights: Floats | None = None) -> float:
    """A robust estimate of the standard deviation; 1 if all values are equal."""
    step = max(1, len(values) // SAMPLE)
    some, shares = np.asarray(values[::step], dtype=np.float64), None if weights is None else weights[::step]
    scale = float(np.abs(some).max(initial=0.0)) or 1.0  # squares of the data may overflow
    some = some / scale
    apart = np.abs(some - median(some, shares))
    found = NORMAL * median(apart, shares) or np.sqrt(np.average(apart**2, weights=shares))
    return scale * float(found) or 1.0
