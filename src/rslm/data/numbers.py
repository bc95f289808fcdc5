"""Numbers for JSON and text files."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def plain_number(value: Any) -> Any:
    """A NumPy number as a Python one; NaN and infinity as text, as JSON cannot represent them."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
