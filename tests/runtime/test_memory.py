"""Where memory or threads run out, a kernel raises MemoryError or does with fewer threads; Python goes on.

Each test is one process, since the limit of address space is one of the process.
"""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no limit of address space to set")

PROLOGUE = """
import resource
import numpy as np
from rslm.kernels import Columns, FeatureRows, bound

ALL = resource.RLIM_INFINITY

def limit(more):  # bytes beside what the process has
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, ALL))

def no_limit():
    resource.setrlimit(resource.RLIMIT_AS, (ALL, ALL))

def pattern(rows, columns, entries):
    index = np.random.default_rng(0).integers(0, rows, columns * entries).astype(np.int32)
    return Columns(np.arange(columns + 1, dtype=np.int64) * entries, index, rows)
"""


def run(body):
    """What a process prints that must not die. Memory that it frees goes back to the system, so that a limit is one."""
    system = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", PROLOGUE + textwrap.dedent(body)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=system)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_kernel_without_memory_is_a_memory_error():
    """Before its threads begin, and within each of them."""
    said = run("""
        rows, columns, rank = 20_000, 40, 40
        c, rng = pattern(rows, columns, 500), np.random.default_rng(1)
        U, V, u = (rng.standard_normal((n, rank)) for n in (rows, columns, 300))
        ones, by_rows, by_features = np.ones(columns), U.copy(), u.copy()
        numbers, rounds, (y, other, dual) = np.ones(columns), np.ones(columns, dtype=np.int32), np.ones((3, c.entries))
        factors, x = c.factorise(U, ones, 2), FeatureRows(rng.standard_normal((rows, 300)), (rows, 300))
        grams = np.ones((columns, rank, rank))
        F, box, wide = factors.data, (-1.0, 1.0, False, 0.0, 0.0), np.broadcast_to(1e9, (rows, columns))
        low = np.broadcast_to(-1e9, (rows, columns))
        calls = {
            "evaluate": lambda c: c.evaluate(y, None, U, ones, False, False, V.copy(), F, other, by_rows, 2),
            "regress": lambda c: c.regress(y, None, U, ones, False, V.copy(), F, 2),
            "residuals": lambda c: c.residuals(y, None, U, V, other, by_rows, 2),
            "derivative": lambda c: c.derivative(y, None, U, False, V, F, U, None, by_rows, 2),
            "factorise": lambda c: c.factorise(U, None, None, None, ones, F, 2),
            "scatter": lambda c: c.scatter(y, V, by_rows, 2),
            "gather": lambda c: c.gather(y, U, V.copy(), 2),
            "grams": lambda c: c.grams(U, None, grams, 2),
            "gram": lambda c: c.gram(y, U, None, by_rows, 2),
            "box": lambda c: c.box(y, U, ones, *box, dual, other, V.copy(), numbers, numbers, rounds, 2),
            "tasks": lambda c: c.evaluate_tasks(
                x._native, False, y, u, ones, False, V.copy(), F, other, by_features, 2
            ),
            "derivative of tasks": lambda c: c.derivative_tasks(x._native, True, y, u, V, F, u, by_features, 2),
            "bound": lambda c: bound(U, V, factors, low, wide, 1.0, 2),
        }
        for name, call in calls.items():
            said = set()
            for scratch in (0, 1 << 20, 1 << 22, 1 << 24, 1 << 26):
                fresh = pattern(rows, columns, 500)._native  # without memory from before
                limit(scratch)
                try:
                    call(fresh)
                    said.add("done")
                except MemoryError as error:
                    said.add("a sentence" if "not enough memory for the kernels" in str(error) else str(error))
                no_limit()
            call(fresh)
            print(name, *sorted(said), sep=", ")
    """)
    lines = [line.split(", ") for line in said.splitlines()]
    assert len(lines) == 13
    for _, *outcomes in lines:
        assert set(outcomes) <= {"a sentence", "done"}, said
    # A kernel whose memory fits into what others have freed, which Python and NumPy decide, is not short of it.
    assert sum("a sentence" in outcomes for _, *outcomes in lines) > len(lines) // 2, said


def test_threads_that_cannot_be_had_are_done_without():
    """A thread's stack takes some MB of address space: none, some or all of them can be made."""
    said = run("""
        c = pattern(rows=500, columns=3000, entries=200)
        V, y = np.random.default_rng(1).standard_normal((3000, 20)), np.ones(c.entries)
        alone, together = np.empty((2, 500, 20))
        c._native.scatter(y, V, alone, 1)
        for scratch in (0, 1 << 20, 1 << 25, 1 << 27, 1 << 30):
            for threads in (2, 7, 10_000):
                limit(scratch)
                c._native.scatter(y, V, together, threads)
                no_limit()
                print(np.array_equal(together, alone), together.fill(0.0))
    """)
    assert said.split() == ["True", "None"] * 15
