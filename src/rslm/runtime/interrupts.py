"""Ctrl-C and the time limit of a fit: the fit stops soon, and the best result so far is kept.

An exception at an arbitrary point would lose that result. So the first Ctrl-C, and the end of `max_time`, only set a
flag and a deadline. The flag is checked after every step, where nothing is lost. If a step is still running `PATIENCE`
seconds later, long work raises `Stopped`: kernels check the deadline regularly, Python code between products and
pieces. A second Ctrl-C raises KeyboardInterrupt at once.
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

PATIENCE = 0.3  # seconds that a running step may still take before it is stopped
LAST = 0.9  # seconds after that to assemble the result
LEAST = 0.1  # fraction of `LAST` that is always granted


class Interrupt:
    """Whether the fit was asked to stop, or has reached its time limit."""

    def __init__(self) -> None:
        self.pending = False  # a stop was requested: by Ctrl-C, or by a callback of one fit among several
        self.pressed = False  # Ctrl-C
        self._deadline = math.inf  # of the work, on the clock of `time.perf_counter`
        self._last: float | None = None  # deadline of the final work after it, while `ending` is active

    def note(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        if self.pressed:
            raise KeyboardInterrupt
        self.pending = self.pressed = True
        self._deadline = min(self._deadline, time.perf_counter() + PATIENCE)

    def over(self) -> bool:
        """Whether the current work has to stop now."""
        return time.perf_counter() >= (self._deadline if self._last is None else self._last)

    def raise_if_stopped(self) -> None:
        """Raise `Stopped` if the current work has to stop now."""
        if self.over():
            raise Stopped

    def renew(self) -> None:
        """After Ctrl-C within a search: the fit from its best point that follows has time of its own to end."""
        if self.pressed:
            self._deadline = time.perf_counter()

    @property
    def ends_soon(self) -> bool:
        """Whether no new step may begin; a running one has at most `PATIENCE` more seconds."""
        return self.pressed or time.perf_counter() >= self._deadline - PATIENCE

    @contextmanager
    def within(self, seconds: float | None, began: float) -> Iterator[None]:
        """Limit the work to this many seconds from `began`; an earlier limit of the enclosing work stays in force."""
        before = self._deadline
        if seconds is not None:
            self._deadline = min(before, began + seconds + PATIENCE)
        try:
            yield
        finally:
            if not self.pressed:  # after Ctrl-C the enclosing work must not begin anything new either
                self._deadline = before

    def left(self) -> float | None:
        """Seconds left for the current work, to pass to another process; None without a limit."""
        until = self._deadline if self._last is None else self._last
        return None if math.isinf(until) else max(until - time.perf_counter(), 0.0)

    @contextmanager
    def until(self, seconds: float | None) -> Iterator[None]:
        """Limit the work here to the seconds that `left` returned in another process."""
        with self.within(None if seconds is None else seconds - PATIENCE, time.perf_counter()):
            yield

    @contextmanager
    def ending(self, part: float = 1.0) -> Iterator[None]:
        """Give the final work after the deadline `LAST` seconds of its own, or this fraction of them."""
        before, now = self._last, time.perf_counter()
        if not self.ends_soon:  # the work ended before its deadline, for another reason
            self._last = self._deadline
        else:  # counted from the deadline, even if it passed long ago, but never zero
            self._last = max(min(self._deadline, now) + part * LAST, now + LEAST * LAST)
        try:
            yield
        finally:
            self._last = before


_ACTIVE: ContextVar[Interrupt | None] = ContextVar(
    "interrupt", default=None
)  # of the outermost fit, as fits may be nested


def interrupted() -> bool:
    """Whether the running fit was asked to stop, by Ctrl-C or by a callback."""
    active = _ACTIVE.get()
    return active is not None and active.pending


def over() -> bool:
    """Whether the running fit has to stop now."""
    active = _ACTIVE.get()
    return active is not None and active.over()


def raise_if_stopped() -> None:
    """Raise `Stopped` if the running fit has to stop now; called regularly in long work."""
    if over():
        raise Stopped


def current_interrupt() -> Interrupt:
    """The active interrupt, to pass to new threads, which do not inherit it; one without a limit if there is none."""
    return _ACTIVE.get() or Interrupt()


ask(over)


@contextmanager
def deferred_interrupts() -> Iterator[Interrupt]:
    """Record the first Ctrl-C instead of raising. Only in the main thread, and if the program has no handler itself."""
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
