"""Ctrl-C while a fit runs: the first one ends it after the step that it is at, the second one ends it at once.

An exception may come anywhere, between two stages, or when the answer is being put together, and what was found until
then would be lost. A flag that is looked at after every step loses nothing.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType


class Interrupt:
    """Whether somebody has asked for an end."""

    pending = False

    def note(self, number: int, frame: FrameType | None) -> None:
        """The handler of the signal."""
        if self.pending:
            raise KeyboardInterrupt
        self.pending = True


_ACTIVE: ContextVar[Interrupt | None] = ContextVar("interrupt", default=None)  # on watch; a fit may be within another


def interrupted() -> bool:
    """Whether Ctrl-C has been pressed while a fit runs."""
    active = _ACTIVE.get()
    return active is not None and active.pending


@contextmanager
def held_back() -> Iterator[Interrupt]:
    """Notes the first Ctrl-C in place of an exception, in the main thread and where the program does not handle it."""
    if (active := _ACTIVE.get()) is not None:
        yield active
        return
    interrupt = Interrupt()
    token = _ACTIVE.set(interrupt)
    ours = threading.current_thread() is threading.main_thread()
    ours = ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, interrupt.note)
    try:
        yield interrupt
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        _ACTIVE.reset(token)
