"""What the kernels cost on every instruction set of this build, and what limits them.

    python benchmarks/kernel [--entries N] [--ranks R …] [--threads N …] [--rounds N]

CPU seconds of all threads, the least of several rounds in which everything takes turns: an evaluation and a Hessian
product, each also in single precision, and the preconditioner. With them, counted by formula: flops; bytes from and to
memory, without and with reading what is overwritten ("owned"); bytes of rows of factors and sums, which are in caches.

A small program measures what a core can do: multiplications and additions in registers as wide as those of the
instruction set; a = b + c/2 for long arrays; rows read, and rows added to, at the entries of the data. "of peak", "of
memory" and "of cache" are the seconds that each would take alone, relative to those measured. The limit is the largest
of them, or latency if none is above a third.

The yardstick in ../shared/bench is not included. It is compiled for this processor ("native") and, for the lines of
AVX2, also for Haswell, because AVX-512 has twice as many registers. Ratios are to its evaluation in double precision;
its own lines have the ratio of its evaluation in single precision. It is not compiled for ranks above 40.

The package has all instruction sets if it was built with `-C cmake.define.RSLM_INSTRUCTION_SETS=all`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import best_seconds, report
from kernel import yardstick
from kernel.limits import limits, shares
from kernel.machine import Machine
from kernel.measured import EVALUATION, Kernel, kernels
from kernel.ratings import ROWS, ratings
from rslm.kernels import Columns, instruction_sets, padded, use_instruction_set
from rslm.runtime.types import Floats

C = 100.0


def arguments() -> argparse.Namespace:
    text, _, more = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser("kernel", description=text, epilog=more)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--entries", type=lambda n: int(float(n)), default=8_000_000, metavar="N")
    parser.add_argument("--ranks", type=int, nargs="+", default=[5, 10, 20, 40], metavar="R", choices=range(1, 129))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--rounds", type=int, default=4, metavar="N")
    return parser.parse_args()


def on(instruction_set: str, call: Callable[[], object]) -> Callable[[], object]:
    def switched() -> object:
        use_instruction_set(instruction_set)
        return call()

    return switched


def least_seconds(calls: dict[tuple[str, str], Callable[[], object]], rounds: int) -> dict[tuple[str, str], float]:
    """CPU seconds of every call; they take turns, so that all meet the same load of the machine."""
    least = dict.fromkeys(calls, np.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            least[name] = min(least[name], best_seconds(call, 2)[1])
    return least


def line(kernel: Kernel, seconds: float, machine: Machine, threads: int, U: Floats) -> dict[str, Any]:
    """What is known of one kernel on one instruction set."""
    width, cost, pattern = padded(U).shape[1], kernel.cost, kernel.pattern

    def of_rows(updates: bool) -> float:
        return machine.seconds_of_rows(pattern.index, pattern.shape[0], width, kernel.single, updates)

    row_bytes = width * (4 if kernel.single else 8)
    return {
        "cpu s": seconds,
        "Gflop": (cost.flops + cost.flops_of_systems) / 1e9,
        "memory GB": (cost.read + cost.written) / 1e9,
        "owned GB": (cost.read + 2 * cost.written) / 1e9,
        "cache GB": pattern.entries * row_bytes * (cost.rows_read + 2 * cost.rows_updated) / 1e9,
        **shares(limits(cost, machine, threads, kernel.single, of_rows), seconds),
    }


def main() -> None:
    options = arguments()
    sets = instruction_sets()
    indptr, index, value = ratings(options.entries)
    columns = Columns(indptr, index, ROWS)
    machines = {name: Machine(name, options.threads) for name in sets}
    processors = ["native", "haswell"] if "avx2" in sets else ["native"]
    evaluators = {p: yardstick.evaluators(p, options.ranks) for p in processors if yardstick.there()}
    rows: list[dict[str, Any]] = []
    for rank in options.ranks:
        U = np.random.default_rng(1).standard_normal((columns.shape[0], rank))
        U /= np.linalg.norm(U)
        for threads in options.threads:
            ours = kernels(columns, value, U, C, threads)
            calls = {(s, name): on(s, kernel.call) for s in sets for name, kernel in ours.items()}
            if rank <= yardstick.HIGHEST:
                for processor, evaluator in evaluators.items():
                    for dtype in (np.float64, np.float32):
                        name = f"yardstick {np.dtype(dtype).name}"
                        calls[processor, name] = evaluator(indptr, index, value, U, C, threads, dtype)
            seconds = least_seconds(calls, options.rounds)
            for (where, name), measured in seconds.items():
                row: dict[str, Any] = {"rank": rank, "threads": threads, "on": where, "kernel": name}
                if where in sets:
                    row |= line(ours[name], measured, machines[where], threads, U)
                    row["/evaluation"] = measured / seconds[where, EVALUATION]
                else:
                    row["cpu s"] = measured
                for processor in evaluators:
                    theirs = seconds.get((processor, "yardstick float64"))
                    if theirs and (processor == "native" or where in ("avx2", processor)):
                        row[f"/{processor} yardstick"] = measured / theirs
                rows.append(row)
    use_instruction_set(sets[-1])
    if not evaluators:
        print(f"The columns of the yardstick are left out: there is no {yardstick.FOLDER}; see RSLM_SHARED.")
    report("kernel", rows, entries=len(index), shape=columns.shape, **{s: str(m) for s, m in machines.items()})


if __name__ == "__main__":
    main()
