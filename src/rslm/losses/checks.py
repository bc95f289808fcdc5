"""Checks that several losses share: of a parameter, and of targets in two classes."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np

from rslm.losses.base import Loss
from rslm.runtime.types import Floats


def checked_number(
    loss: object, name: str, *, at_least: float = -math.inf, above: float = -math.inf, below: float = math.inf
) -> None:
    """Raise an error if a parameter is not a number within its limits; otherwise store it as a plain float."""
    value = getattr(loss, name)
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:  # an integer that no float can hold
        number = math.inf
    if not (at_least <= number and above < number < below):
        limits = [f"≥ {at_least:g}"] * (at_least > -math.inf) + [f"> {above:g}"] * (above > -math.inf)
        limits += [f"< {below:g}"] * (below < math.inf)
        needed = f"a finite number {' and '.join(limits)}"
        raise ValueError(f"{name} of {type(loss).__name__} must be {needed}; got {value!r}")
    object.__setattr__(loss, name, number)


def signs(loss: Loss, y: Floats) -> Floats:
    """Targets −1 and 1, for targets given as −1 and 1 or as 0 and 1."""
    y = y if y.dtype.kind == "f" else y.astype(np.float64)
    zero, negative = y == 0, y == -1
    invalid = np.flatnonzero(~(zero | negative | (y == 1)))
    name = type(loss).__name__
    if len(invalid):
        raise ValueError(
            f"{name} needs two classes, −1 and 1 or 0 and 1 (booleans too); {len(invalid)} of {y.size} targets have "
            f"other values, the first is {y.flat[invalid[0]]:g}. Turn them into classes, for instance y > threshold, "
            "or use a loss for real numbers, such as Huber"
        )
    if zero.any() and negative.any():
        raise ValueError(
            f"{name} needs two classes, but the targets are −1, 0 and 1: remove the entries that are 0 if they mean "
            "missing, or merge two of the classes"
        )
    return np.where(zero, np.asarray(-1.0, dtype=y.dtype), y) if zero.any() else y
