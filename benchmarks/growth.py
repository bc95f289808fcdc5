"""How the seconds of an evaluation and of a Hessian product grow with the entries and with the rank.

    python benchmarks/growth.py [--most 1e7] [--ranks R …] [--threads N …]

Generated ratings of 10⁵ entries up to --most, two sizes per decade, in float32 from 10⁷ on. With 10⁸ entries the shape
is that of the Netflix data, 17,770 × 480,189. Smaller ones have the same number of entries in a column, 208, and rows
in proportion to the square root of the entries: more users come with as many ratings each, and the catalogue grows
slowly. So the work per entry stays the same, while the data, and then the rows of U and their sums, outgrow the caches.

CPU seconds of all threads count, and exponents are fitted to them by least squares of the logarithms. Combinations that
need more than half of the free memory, or where entries × rank² is above 5·10¹⁰, are left out: ranks above 128 are
measured on smaller data, and 10⁸ entries at ranks up to 20.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from common import report
from rslm.datasets import make_ratings
from rslm.kernels import Columns

NETFLIX = 10**8
ROWS, COLUMNS = 17_770, 480_189
WORK = 5e10  # most entries × rank²: about ten seconds an evaluation
KERNELS = EVALUATION, HESSIAN = "evaluation", "Hessian product"


def arguments() -> argparse.Namespace:
    text, _, more = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser("growth.py", description=text, epilog=more)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--most", type=float, default=1e7, metavar="ENTRIES")
    parser.add_argument("--ranks", type=int, nargs="+", default=[5, 10, 20, 40, 64, 128, 256], metavar="R")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N")
    return parser.parse_args()


def shape(entries: int) -> tuple[int, int]:
    return round(ROWS * (entries / NETFLIX) ** 0.5), round(COLUMNS * entries / NETFLIX)


def free_memory() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the operating system does not say how much memory is free")


def memory(entries: int, rank: int) -> float:
    """Bytes of the entries, of U, V and their sums, and of the factors, which above rank 128 are limited."""
    d, T = shape(entries)
    factors = T * rank * (rank + 1) / 2
    if rank > 128:
        factors = min(factors, 16 * (entries + (d + T) * rank))
    return 8.0 * (5 * entries + factors + (2 * T + 34 * d) * rank)


def sizes(most: float) -> Iterator[int]:
    for half_decades in range(10, 17):
        if 10 ** (half_decades / 2) <= 1.001 * most:
            yield round(10 ** (half_decades / 2))


def least_seconds(f: Callable[[], object]) -> float:
    """CPU seconds of one call: the least of two, or of up to seven that together take three seconds."""
    calls: list[float] = []
    while len(calls) < 2 or (len(calls) < 7 and sum(calls) < 3):
        start = time.process_time()
        f()
        calls.append(time.process_time() - start)
    return min(calls)


def measured(columns: Columns, y: Any, rank: int, threads: int) -> dict[str, float]:
    rng = np.random.default_rng(1)
    U, dU = rng.standard_normal((2, columns.shape[0], rank))
    U /= np.linalg.norm(U)
    ridge = np.full(columns.shape[1], 0.5 / 1e3)
    solved = columns.evaluate(y, U, ridge, threads)  # which also warms up
    return {
        EVALUATION: least_seconds(partial(columns.evaluate, y, U, ridge, threads, solved)),
        HESSIAN: least_seconds(partial(columns.derivative, solved, U, dU, threads)),
    }


def exponents(rows: list[dict[str, Any]], over: str, fixed: str) -> Iterator[dict[str, Any]]:
    """Slopes of the logarithm of the seconds over that of `over`, for each value of `fixed` and of the threads."""
    for value, threads in dict.fromkeys((row[fixed], row["threads"]) for row in rows):
        chosen = [row for row in rows if (row[fixed], row["threads"]) == (value, threads)]
        if len(chosen) < 3:
            continue
        x = [row[over] for row in chosen]
        found: dict[str, Any] = {
            "over": over,
            "from": min(x),
            "to": max(x),
            "at": f"{fixed} {value}",
            "threads": threads,
        }
        for kernel in KERNELS:
            slope = np.polyfit(np.log(x), np.log([row[f"{kernel} s"] for row in chosen]), 1)[0]
            found[f"{kernel} exponent"] = round(float(slope), 3)
        yield found


def main() -> None:
    options = arguments()
    rows: list[dict[str, Any]] = []
    for entries in sizes(options.most):
        ranks = [r for r in options.ranks if entries * r**2 <= WORK and 2 * memory(entries, r) <= free_memory()]
        if ranks != options.ranks:
            print(f"{entries} entries: ranks {', '.join(str(r) for r in options.ranks if r not in ranks)} are left out")
        if not ranks:
            continue
        d, T = shape(entries)
        dtype = np.float32 if entries >= 10**7 else np.float64
        data = make_ratings(T, d, entries, random_state=0, dtype=dtype).data
        columns = Columns(data.indptr, data.index, d)
        for rank in ranks:
            for threads in options.threads:
                row: dict[str, Any] = {"entries": entries, "rows": d, "columns": T, "values": np.dtype(dtype).name}
                row |= {"rank": rank, "threads": threads}
                seconds = measured(columns, data.values, rank, threads)
                row |= {f"{kernel} s": seconds[kernel] for kernel in KERNELS}
                row |= {f"{kernel} ns/entry": 1e9 * seconds[kernel] / entries for kernel in KERNELS}
                rows.append(row)
    found = [*exponents(rows, "entries", "rank"), *exponents(rows, "rank", "entries")]
    report("growth", rows)
    if found:
        report("growth_exponents", found)


if __name__ == "__main__":
    main()
