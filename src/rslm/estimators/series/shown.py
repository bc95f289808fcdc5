"""A series in a notebook: its periods, and a small picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.display.fragments import number
from rslm.display.svg import curve
from rslm.runtime.types import Floats

MOST = 4  # periods that are shown
SLOW = 1e-6  # frequencies below it are trends and decay


def periods_in_words(frequencies: Floats) -> dict[str, str]:
    """The periods of the oscillations, the slowest decay first; empty if there are none."""
    found = 1.0 / frequencies[frequencies > SLOW]
    more = ", …" if len(found) > MOST else ""
    return (
        {"periods, in samples": ", ".join(number(float(period)) for period in found[:MOST]) + more}
        if len(found)
        else {}
    )


def series_picture(model: Any) -> tuple[str, str]:
    """The signal of the first channel with its samples, which a model from a file does not have."""
    signal = getattr(model, "signal_", None)
    if signal is None:
        return "", ""
    samples = signal + model.residuals_ if hasattr(model, "residuals_") else None
    words = "signal" if samples is None else "samples and signal"
    drawn = curve(_first(signal), None if samples is None else _first(samples), words)
    return drawn, words + (" of channel 1" if signal.ndim > 1 else "")


def _first(values: NDArray[Any]) -> Floats:
    return np.asarray(np.real(values if values.ndim == 1 else values[:, 0]), dtype=np.float64)
