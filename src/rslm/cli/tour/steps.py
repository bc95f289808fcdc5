"""Functions that all parts of the demonstration share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike


class Stopped(BaseException):
    """Ctrl-C. Not a KeyboardInterrupt, after which a solver would keep its best result and the next fit would begin."""


@contextmanager
def stopping_at_once() -> Iterator[None]:
    """Let Ctrl-C end the whole demonstration, as there are no partial results to keep."""

    def stop(*_: object) -> None:
        raise Stopped

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def rmse(found: ArrayLike, truth: ArrayLike) -> float:
    return float(np.sqrt(np.mean((np.asarray(found) - np.asarray(truth)) ** 2)))


def percent(part: float, digits: int = 0) -> str:
    return f"{100 * part:.{digits}f} %"
