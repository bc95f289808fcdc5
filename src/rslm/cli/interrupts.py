"""Ctrl-C outside fits: one line and exit code 130, never a traceback. `rslm.runtime.interrupts` is about fits.

Nothing slow is imported here: until `program` runs, Ctrl-C is a traceback of Python's.
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
    """The program `rslm`. A handler comes first, since the imports take seconds on a busy machine.

    An exception would not do: extension modules that are being imported print it, or replace it by an ImportError.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a script's background jobs ignore it
        signal.signal(signal.SIGINT, leave)
        # The last to run. While Python takes modules apart, the signal would end a command that is done.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    from rslm.cli.app import main

    main()


def leave(number: int, frame: FrameType | None) -> None:
    """A handler that ends the process at once, for moments when nothing has to be cleaned up."""
    os.write(2, LINE.encode())
    os._exit(INTERRUPTED)


def interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """A command that Ctrl-C ends by an exception, so that unfinished files are removed and the cursor comes back."""

    @wraps(command)
    def run(*args: object, **options: object) -> None:
        ours = signal.getsignal(signal.SIGINT) is leave
        try:
            if ours:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            command(*args, **options)
            sys.stdout.flush()  # `leave` would lose what is left
        except KeyboardInterrupt:
            sys.stderr.write(LINE)
            sys.exit(INTERRUPTED)
        finally:
            if ours:
                signal.signal(signal.SIGINT, leave)

    return run
