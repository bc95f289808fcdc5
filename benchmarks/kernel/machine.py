"""What a core can do in a CPU second on an instruction set: arithmetic, memory, rows of a table in a cache."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import best_seconds
from kernel.compiler import compiled

# Flags of the compiler, and bytes of a register.
SETS: dict[str, tuple[list[str], int]] = {
    "baseline": ([], 16),
    "avx2": (["-mavx2", "-mfma"], 32),
    "avx512": (["-mavx512f", "-mavx512dq", "-mavx512vl", "-mfma", "-mprefer-vector-width=512"], 64),
}
ROUNDS = 2_000_000  # of multiplications and additions: some milliseconds
STREAMED = 1 << 24  # numbers of each of the three arrays that are streamed: together more than any cache


class Machine:
    """Rates of one instruction set."""

    def __init__(self, instruction_set: str, threads: list[int]) -> None:
        flags, self._bytes = SETS[instruction_set]
        source = Path(__file__).with_name("probe.cpp").read_text()
        self._probe = compiled(source, *flags, f"-DBYTES={self._bytes}")
        self._probe.multiply_add_f64.restype, self._probe.multiply_add_f32.restype = ct.c_double, ct.c_float
        self.flops = {single: self._flops(single) for single in (False, True)}
        self.bandwidth = {n: self._bandwidth(n) for n in threads}

    def _flops(self, single: bool) -> float:
        """Flops per second, in single or double precision."""
        f = self._probe.multiply_add_f32 if single else self._probe.multiply_add_f64
        numbers: int = self._bytes // (4 if single else 8) * self._probe.registers_per_round()
        _, seconds = best_seconds(partial(f, ct.c_int64(ROUNDS)), 7)
        return 2 * numbers * ROUNDS / seconds

    def _bandwidth(self, threads: int) -> float:
        """Bytes from and to memory per second of a thread: a = b + c/2 moves four numbers, as a is read before."""
        a, b, c = np.ones((3, STREAMED))
        size = STREAMED // threads

        def part(k: int) -> None:
            at = slice(k * size, (k + 1) * size)
            self._probe.triad(_pointer(a[at]), _pointer(b[at]), _pointer(c[at]), ct.c_int64(size))

        with ThreadPoolExecutor(threads) as pool:  # a call through ctypes lets other threads run
            _, seconds = best_seconds(lambda: list(pool.map(part, range(threads))), 7)
        return 4 * 8 * size * threads / seconds

    def seconds_of_rows(self, index: NDArray[np.int32], rows: int, width: int, single: bool, updates: bool) -> float:
        """Seconds to read the rows of a table at the entries and do nothing with them, or to add something to them."""
        dtype = np.float32 if single else np.float64
        table, row = np.zeros((rows, width), dtype), np.ones((64, width), dtype)
        f: Callable[..., Any] = self._probe.rows_f32 if single else self._probe.rows_f64
        arguments = width, int(updates), _pointer(index), ct.c_int64(len(index)), _pointer(table), _pointer(row)
        return best_seconds(partial(f, *arguments), 4)[1]

    def __str__(self) -> str:
        memory = ", ".join(f"{rate / 1e9:.1f} with {n}" for n, rate in self.bandwidth.items())
        double, single = self.flops[False] / 1e9, self.flops[True] / 1e9
        return f"peak {double:.1f} Gflop/s in float64, {single:.1f} in float32; memory GB/s of a thread: {memory}"


def _pointer(array: NDArray[Any]) -> ct.c_void_p:
    return ct.c_void_p(array.ctypes.data)
