"""Numbers as JSON and text want them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def plain_number(value: Any) -> Any:
    """A number of NumPy as one of Python; not finite ones as text, which JSON has no numbers for."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
