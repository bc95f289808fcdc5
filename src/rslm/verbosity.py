"""The library's logger. But for the terms of downloads it is silent unless someone asks to see it."""

from __future__ import annotations

import logging

logger = logging.getLogger("rslm")


def show_log() -> None:
    """Show the log on standard error, unless the application has set up logging itself."""
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    if not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())
