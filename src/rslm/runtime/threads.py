"""The number of threads, work on Python threads, and the threads of the BLAS."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from numbers import Integral
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

MOST = 1 << 15  # threads; more is surely a mistake on any machine
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def thread_count(n_threads: int | None) -> int:
    """The number given, or that of all cores that this process may use."""
    if n_threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(n_threads, bool) or not isinstance(n_threads, Integral) or n_threads < 1:
        raise ValueError(f"n_threads must be None, for all cores, or a whole number ≥ 1; got {n_threads!r}")
    if n_threads > MOST:
        raise ValueError(f"n_threads must be at most {MOST}; got {n_threads!r}")
    return int(n_threads)


def in_threads(threads: int, function: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer]:
    """The results for all items, by `threads` threads. After an exception or Ctrl-C no further item is started."""
    with ThreadPoolExecutor(threads) as pool:
        try:
            return list(pool.map(function, items))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_blas_lock = threading.Lock()
_blas_users = 0
_blas_limits: Any = None


@cache
def _blas() -> ThreadpoolController:
    """The BLAS of NumPy and that of SciPy. Finding them takes 5 ms in a process with many libraries, so only once."""
    importlib.import_module("scipy.linalg")  # loads its BLAS
    return ThreadpoolController()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit the BLAS to one thread. If several contexts overlap, the first sets the limit and the last restores it."""
    global _blas_users, _blas_limits
    with _blas_lock:
        if _blas_users == 0:
            _blas_limits = _blas().limit(limits=1, user_api="blas")
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                _blas_limits.restore_original_limits()
