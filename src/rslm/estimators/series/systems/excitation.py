"""How many orders inputs can tell apart."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from rslm.runtime.types import Floats

PREDICTED = 1e-9  # an input is determined by its past if this part of it, or less, is new


def excitation(U: Floats, most: int) -> int:
    """The length of the longest windows of the inputs, (inputs, n), that are linearly independent; at most `most`.

    A constant counts as known, since outputs may have offsets. A sinusoid adds two. A system needs
    2 × order + 1: its poles, its zeros and D.
    """
    inputs, n = U.shape
    U = U / np.maximum(np.abs(U).max(axis=1, keepdims=True), np.finfo(float).tiny)  # their squares may overflow
    most = min(most, (n - 1) // (inputs + 1))
    if most < 1:
        return 0
    windows = sliding_window_view(U, most, axis=1).transpose(1, 2, 0).reshape(n - most + 1, -1)
    windows = windows - windows.mean(axis=0)
    sizes = np.linalg.norm(windows, axis=0)
    new = np.abs(np.diag(np.linalg.qr(windows / np.where(sizes > 0, sizes, 1.0), mode="r")))
    known = new <= PREDICTED
    return int(np.argmax(known)) // inputs if known.any() else most


def constant_inputs(U: Floats) -> list[int]:
    """Inputs that do not change, apart from rounding errors."""
    return [k for k, u in enumerate(U) if np.ptp(u) <= PREDICTED * np.abs(u).max()]
