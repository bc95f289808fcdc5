"""Ctrl-C outside of fits: one line and exit code 130, never a traceback. For fits see `rslm.runtime.interrupts`.

Nothing slow is imported here: until `program` runs, Ctrl-C gives a Python traceback.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from types import FrameType

INTERRUPTED = 130  # exit code of programs that Ctrl-C has ended
LINE = "Interrupted.\n"


def program() -> None:
    """The program `rslm`. The signal handler is set first, since the imports take seconds on a busy machine.

    The handler must not raise: extension modules that are being imported would print the exception, or replace it by
    an ImportError.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # background jobs of a script ignore it
        signal.signal(signal.SIGINT, leave)
        # Registered first, so it runs last: a signal while Python shuts down would fail a command that has succeeded.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    from rslm.cli.app import main

    main()


def leave(number: int, frame: FrameType | None) -> None:
    """A signal handler that ends the process at once, for use when nothing has to be cleaned up."""
    os.write(2, LINE.encode())
    os._exit(INTERRUPTED)


def interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that Ctrl-C raises in it: unfinished files are removed and the cursor is restored."""

    @wraps(command)
    def run(*args: object, **options: object) -> None:
        ours = signal.getsignal(signal.SIGINT) is leave
        try:
            if ours:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            command(*args, **options)
            sys.stdout.flush()  # `leave` would lose buffered output
        except KeyboardInterrupt:
            sys.stderr.write(LINE)
            sys.exit(INTERRUPTED)
        finally:
            if ours:
                signal.signal(signal.SIGINT, leave)

    return run
