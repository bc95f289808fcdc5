"""The library's logger. Apart from the terms of downloads, it is silent unless the caller asks to see it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rslm.runtime.notebook import LiveLine, kernel

logger = logging.getLogger("rslm")

_listening = ContextVar("listening", default=False)  # whether the code running here was asked to show its log
_lock = threading.Lock()
_shown: _Shown | None = None  # None unless some `log_shown` is active


@contextmanager
def log_shown(wanted: object) -> Iterator[None]:
    """Show the log in this context, on standard error unless the application has set up logging itself.

    In a notebook, 1 shows the last message only, in a line that is updated, and more than 1 all of them. Messages of
    other threads are not shown. Afterwards the logger is as it was before.
    """
    global _shown
    if not wanted:
        yield
        return
    token = _listening.set(True)
    with _lock:
        _shown = _shown or _Shown(wanted)
        _shown.users += 1
    try:
        yield
    finally:
        _listening.reset(token)
        with _lock:
            assert _shown is not None
            _shown.users -= 1
            if _shown.users == 0:
                _shown.end()
                _shown = None


class _Shown:
    """The changes made to the logger while its log is shown: a level, a handler if there is none, and a filter."""

    def __init__(self, wanted: object) -> None:
        self.users = 0
        self._level, self._from = logger.level, logger.getEffectiveLevel()
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
        self._handler = None if logger.hasHandlers() else _handler(wanted)
        if self._handler is not None:
            logger.addHandler(self._handler)
        logger.addFilter(self._passes)

    def _passes(self, record: logging.LogRecord) -> bool:
        return _listening.get() or record.levelno >= self._from

    def end(self) -> None:
        logger.removeFilter(self._passes)
        if self._handler is not None:
            logger.removeHandler(self._handler)
            self._handler.close()
        logger.setLevel(self._level)


def _handler(wanted: object) -> logging.Handler:
    every = isinstance(wanted, int) and wanted > 1
    return logging.StreamHandler() if every or kernel() is None else LiveLine()
