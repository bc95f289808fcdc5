"""Least squares with many more rows than unknowns, a block of rows at a time.

One LAPACK call for all rows could not be interrupted; between two blocks there is a check for interrupts.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.threads import single_threaded_blas

BLOCK = 1 << 16  # numbers in a block, so that it stays in the cache
THIN = 512  # with at most this many columns, BLAS threads would mostly wait for each other
LEAST_ROWS = 4  # least rows of a block relative to columns, because each block factorises R of those before it again


def reduced(A: NDArray[Any], Y: NDArray[Any], centre: Any = 0.0) -> tuple[NDArray[Any], NDArray[Any], float]:
    """R, Z and s with |Y − (A − centre) W|² = |Z − R W|² + s² for every W; R has no more rows than columns.

    With A − centre = Q R they are R, QᵀY and |Y − QQᵀY|, computed as stably as by one QR factorisation of all rows. The
    `centre` is a row that is subtracted from every row of A.
    """
    columns = A.shape[1]
    rows = max(LEAST_ROWS * columns, BLOCK // max(columns, 1))
    R, Z = np.zeros((0, columns), A.dtype), np.zeros((0, *Y.shape[1:]), np.result_type(A, Y))
    unexplained = 0.0
    with single_threaded_blas() if columns <= THIN else nullcontext():
        for k in range(0, len(A), rows):
            raise_if_stopped()
            Q, R = np.linalg.qr(np.concatenate([R, A[k : k + rows] - centre]))
            left = np.concatenate([Z, Y[k : k + rows]])
            Z = Q.conj().T @ left
            left -= Q @ Z
            unexplained = math.hypot(unexplained, _norm(left))
    return R, Z, unexplained


def _norm(X: NDArray[Any]) -> float:
    """The Frobenius norm, also of numbers whose squares overflow or underflow."""
    size = float(np.abs(X).max(initial=0.0))
    scale = max(size, np.finfo(float).tiny)
    return scale * float(np.linalg.norm(X / scale)) if size < math.inf else size
