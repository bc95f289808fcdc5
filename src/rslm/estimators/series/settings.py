"""Settings of a model of a series: what they must be, and what follows from the series where they are not given."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.estimators.choices import AUTO, is_auto
from rslm.runtime.magnitudes import as_float

WIDEST = 100  # largest default window
MOST_ORDERS = 20  # largest order that rank="auto" tries
SAMPLES_PER_PARAMETER = 2  # that an order needs at least


def check_limits(C: Any, max_time: Any) -> None:
    for name, value, other in (("C", C, AUTO), ("max_time", max_time, None)):
        if not (is_auto(value) if other else value is None) and not 0 < as_float(value) < math.inf:
            raise ValueError(f"{name} must be {other!r} or a positive finite number; got {value!r}")


def check_kind(Y: NDArray[Any], driven: bool, given: dict[str, Any]) -> None:
    """Complex series and series with inputs have only the square loss, and no C; `given` are others that were set."""
    if driven and np.iscomplexobj(Y):
        raise ValueError(
            "y is complex, but a system with inputs u has real outputs; give y.real and y.imag as two outputs, "
            "np.column_stack([y.real, y.imag])"
        )
    for name, value in given.items():
        if np.iscomplexobj(Y):
            raise ValueError(
                f"{name}={value!r} is for real series, and y is complex; leave {name} at its default, which fits "
                "complex series as they are"
            )
        if driven:
            raise ValueError(f"{name}={value!r} is for series without inputs u; leave {name} at its default")


def checked_sizes(Y: NDArray[Any], rank: Any, window: Any, given_C: bool) -> tuple[int, int]:
    """The window and the largest order."""
    channels, n = Y.shape
    if window is None:
        window = min((n + 1) // 2, WIDEST)
    elif isinstance(window, bool) or not isinstance(window, int | np.integer) or not 2 <= window < n:
        raise ValueError(f"window must be a whole number from 2 to {n - 1}, less than the {n} samples; got {window!r}")
    window = int(window)
    sides = min(window, channels * (n - window + 1)) - 1
    if isinstance(rank, str):
        if rank != "auto":
            raise ValueError(f'rank must be a whole number or "auto"; got {rank!r}')
        return window, min(MOST_ORDERS, _most_orders(Y, window))
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or not 1 <= rank <= sides:
        raise ValueError(
            f"rank must be a whole number from 1 to {sides}, less than both sides of the Hankel matrix, which are "
            f"{window} and {channels * (n - window + 1)}; got {rank!r}"
        )
    return window, min(int(rank), sides if given_C else _most_orders(Y, window))


def _most_orders(Y: NDArray[Any], window: int) -> int:
    """The largest order that the number of samples allows."""
    channels, n = Y.shape
    known = int((~np.isnan(Y)).sum()) // (SAMPLES_PER_PARAMETER * (1 + channels))
    return int(max(1, min(window - 1, channels * (n - window + 1) - 1, known)))
