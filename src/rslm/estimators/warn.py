"""Warnings that point at the user's line, wherever in the package they are raised."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

INTERNAL = ("rslm", "sklearn")  # packages whose frames are skipped; scikit-learn's decorators are among them


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside this package and scikit-learn."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in INTERNAL:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
