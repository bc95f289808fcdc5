"""Tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The first column is text, the others are aligned to the right."""
    lines = [list(map(str, header)), ["---", *("---:" for _ in header[1:])], *(list(map(str, row)) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def number(value: float, digits: int) -> str:
    """Fixed digits; "–" for what is not a number."""
    return f"{value:.{digits}f}" if math.isfinite(value) else "–"


def small(value: float) -> str:
    """Two significant digits, for gaps and the like."""
    return f"{value:.1e}" if math.isfinite(value) else "–"


def mean_std(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation; the mean alone of a single value."""
    if len(values) < 2:
        return number(float(values[0]), digits) if values else "–"
    return f"{number(float(np.mean(values)), digits)} ± {number(float(np.std(values)), digits)}"
