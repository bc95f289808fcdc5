"""Ctrl-C and the end of the time while a fit runs: the best answer so far is kept, and comes at once.

An exception may come anywhere, between two stages, or when the answer is being put together, and what was found until
then would be lost. So the first Ctrl-C, and the end of `max_time`, are but noted. They are looked at after every step,
which loses nothing; and, a little later, within all work that may take long, which raises `Stopped` there: in kernels,
that ask now and then, and between products and pieces in Python. A second Ctrl-C ends everything at once.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

from rslm.kernels import Stopped, ask

PATIENCE = 0.3  # seconds that a step which is under way has, before it is stopped
LAST = 0.9  # seconds after that for the answer to be put together
LEAST = 0.1  # part of these that there is in any case


class Interrupt:
    """Whether somebody has asked for an end, or the time is over."""

    def __init__(self) -> None:
        self.pending = False  # whether somebody wants an end: by Ctrl-C, or a callback of one fit among several
        self.pressed = False  # Ctrl-C
        self._deadline = math.inf  # of the work, in the time of `time.perf_counter`
        self._last: float | None = None  # of what is done after it, while that is done

    def note(self, number: int, frame: FrameType | None) -> None:
        """The handler of the signal."""
        if self.pressed:
            raise KeyboardInterrupt
        self.pending = self.pressed = True
        self._deadline = min(self._deadline, time.perf_counter() + PATIENCE)

    def over(self) -> bool:
        """Whether what is under way is to end where it is."""
        return time.perf_counter() >= (self._deadline if self._last is None else self._last)

    def look(self) -> None:
        """Raise `Stopped` if what is under way is to end."""
        if self.over():
            raise Stopped

    @property
    def hurries(self) -> bool:
        """Whether the time is over but for what is under way."""
        return self.pressed or time.perf_counter() >= self._deadline - PATIENCE

    @contextmanager
    def within(self, seconds: float | None, began: float) -> Iterator[None]:
        """Let the work end so many seconds after it began, or before if it is within other work that has to."""
        before = self._deadline
        if seconds is not None:
            self._deadline = min(before, began + seconds + PATIENCE)
        try:
            yield
        finally:
            if not self.pressed:  # else nothing more is begun either
                self._deadline = before

    def left(self) -> float | None:
        """Seconds until what is under way is to end, for another process; None without end."""
        until = self._deadline if self._last is None else self._last
        return None if math.isinf(until) else max(until - time.perf_counter(), 0.0)

    @contextmanager
    def until(self, seconds: float | None) -> Iterator[None]:
        """The other end of `left`."""
        with self.within(None if seconds is None else seconds - PATIENCE, time.perf_counter()):
            yield

    @contextmanager
    def ending(self, part: float = 1.0) -> Iterator[None]:
        """What is done now comes after the end: it has some time of its own, or a part of that."""
        before, now = self._last, time.perf_counter()
        if not self.hurries:  # it was ended for another reason, before its time
            self._last = self._deadline
        else:  # counted from when it should have ended, however long that took; but there is always a little
            self._last = max(min(self._deadline, now) + part * LAST, now + LEAST * LAST)
        try:
            yield
        finally:
            self._last = before


_ACTIVE: ContextVar[Interrupt | None] = ContextVar("interrupt", default=None)  # on watch; a fit may be within another


def interrupted() -> bool:
    """Whether Ctrl-C has been pressed while a fit runs."""
    active = _ACTIVE.get()
    return active is not None and active.pending


def over() -> bool:
    """Whether the work that this is a part of is to end."""
    active = _ACTIVE.get()
    return active is not None and active.over()


def look() -> None:
    """Raise `Stopped` if the work that this is a part of is to end; to be called now and then where it takes long."""
    if over():
        raise Stopped


def on_watch() -> Interrupt:
    """The one on watch, for threads that are made here and do not know of it; where there is none, one without end."""
    return _ACTIVE.get() or Interrupt()


ask(over)


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
