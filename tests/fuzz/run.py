"""Fuzzers: random inputs, each made from one seed, that must end in an answer or in an error with a sentence.

    python tests/fuzz/run.py --seconds 60                  all fuzzers, each for a minute
    python tests/fuzz/run.py estimators --cases 1000       seeds 0 to 999 of one of them
    python tests/fuzz/run.py estimators --seed 123         one case in this process, to look at

A fuzzer is a module of this folder with a function `case(seed)`, which raises if a promise is broken. Cases run in
child processes, so that one that crashes or hangs is a failure like any other; a failure is printed as the command that
repeats it.
"""

from __future__ import annotations

import argparse
import importlib
import math
import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

FUZZERS = ("estimators", "files", "kernels")
LONGEST = 5.0  # seconds of processor time that a case may take, so that a busy machine fails none
STUCK = 12.0  # times as long by the clock is a case that waits for something
START = 60.0  # seconds that a child may take to import what it needs


@dataclass
class Report:
    """What a fuzzer has found."""

    fuzzer: str
    cases: int = 0
    slowest: tuple[float, int] = (0.0, -1)  # seconds and seed
    failures: dict[int, str] = field(default_factory=dict)

    def note(self, seed: int, seconds: float, failure: str | None) -> None:
        self.cases += 1
        self.slowest = max(self.slowest, (seconds, seed))
        if failure is not None:
            self.failures[seed] = failure
            print(f"FAILED {command(self.fuzzer, seed)}\n{failure.rstrip()}", flush=True)

    def __str__(self) -> str:
        seconds, seed = self.slowest
        return f"{self.fuzzer}: {self.cases} cases, {len(self.failures)} failed, slowest {seconds:.1f} s (seed {seed})"


def command(fuzzer: str, seed: int) -> str:
    return f"python tests/fuzz/run.py {fuzzer} --seed {seed}"


def run(
    fuzzer: str, first: int, cases: int | None, seconds: float | None, processes: int, longest: float = LONGEST
) -> Report:
    """Run seeds from `first` on until there are enough cases or the time is over; `longest` is the limit of a case."""
    report, began, seed = Report(fuzzer), time.monotonic(), first
    children: list[Child] = []
    try:
        while True:
            over = cases is not None and seed - first >= cases
            over = over or (seconds is not None and time.monotonic() - began >= seconds)
            while not over and len(children) < processes:
                children.append(Child(fuzzer, longest))
            for child in children:
                if not over and child.seed is None:
                    child.begin(seed)
                    seed += 1
                    over = cases is not None and seed - first >= cases
            busy = [child for child in children if child.seed is not None]
            if not busy:
                return report
            wait([child.connection for child in busy], timeout=0.2)
            for child in busy:
                if child.ended(report):
                    children.remove(child)
    finally:
        for child in children:
            child.process.kill()


class Child:
    """A process that runs one case after another."""

    def __init__(self, fuzzer: str, longest: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(fuzzer, other, longest), daemon=True)
        self.process.start()
        other.close()
        self.seed: int | None = None
        self.fresh, self.longest = True, longest

    def begin(self, seed: int) -> None:
        self.seed, self.began = seed, time.monotonic()
        self.connection.send(seed)

    def ended(self, report: Report) -> bool:
        """Note the case if it is done; whether this process is of no more use."""
        assert self.seed is not None
        seconds, limit = time.monotonic() - self.began, STUCK * self.longest + (START if self.fresh else 0.0)
        if self.connection.poll():
            try:
                seconds, failure = self.connection.recv()
                report.note(self.seed, seconds, failure)
                self.seed, self.fresh = None, False
                return False
            except EOFError:
                self.process.join()
                code = self.process.exitcode
                slow = f"still running after {self.longest:g} s of processor time"
                died = f"the process died with exit code {code}"
                report.note(self.seed, seconds, slow if code == -signal.SIGXCPU else died)
                return True
        if seconds > limit:
            self.process.kill()
            report.note(self.seed, seconds, f"still running after {seconds:.1f} s")
            return True
        return False


def serve(fuzzer: str, connection: Connection, longest: float) -> None:
    """What a child does: cases as they come. What they print is of no interest."""
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    case = load(fuzzer)
    while True:
        try:
            seed = connection.recv()
        except EOFError:
            return
        began, failure = time.process_time(), None
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(began + longest), resource.RLIM_INFINITY))
        try:
            case(seed)
        except BaseException:
            failure = traceback.format_exc()
        connection.send((time.process_time() - began, failure))


def load(fuzzer: str):  # -> Callable[[int], None]
    sys.path.insert(0, str(Path(__file__).parent))
    return importlib.import_module(fuzzer).case


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fuzzers", nargs="*", metavar="FUZZER", help=f"of {', '.join(FUZZERS)}; all if none is named")
    parser.add_argument("--seconds", type=float, help="how long each fuzzer runs")
    parser.add_argument("--cases", type=int, help="how many cases each fuzzer runs")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this case alone, in this process")
    parser.add_argument("--longest", type=float, default=LONGEST, help="seconds of processor time that a case may take")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if unknown := set(options.fuzzers) - set(FUZZERS):
        parser.error(f"there is no fuzzer {', '.join(sorted(unknown))}; there are {', '.join(FUZZERS)}")
    if options.seed is not None:
        if len(options.fuzzers) != 1:
            parser.error("--seed needs the name of one fuzzer")
        load(options.fuzzers[0])(options.seed)
        return 0
    if options.cases is None and options.seconds is None:
        parser.error("say how long: --seconds or --cases")
    reports = []
    for fuzzer in options.fuzzers or FUZZERS:
        limits = options.cases, options.seconds, options.processes, options.longest
        reports.append(run(fuzzer, options.first, *limits))
        print(reports[-1], flush=True)
    return 1 if any(report.failures for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
