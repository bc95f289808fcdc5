"""How many threads to use."""

from __future__ import annotations

import os
from numbers import Integral


def thread_count(n_threads: int | None) -> int:
    """The number asked for, or all cores that this process may use."""
    if n_threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(n_threads, bool) or not isinstance(n_threads, Integral) or n_threads < 1:
        raise ValueError(f"n_threads must be None or a whole number ≥ 1; got {n_threads!r}")
    return int(n_threads)
