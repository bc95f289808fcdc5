"""Measures the numbers of the documentation, stores them, and writes them into its pages.

    make benchmarks [ONLY="first_fit clicks"] [AGAIN=1]

Stop it at any time: studies that are stored at this commit are not measured again, unless AGAIN=1. A study whose data
or packages are absent is left as it is stored. `--pages` only writes the pages, for instance after a change of a table.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from common import OUT, ROOT, commit
from measured.pages import write
from measured.store import NotMeasuredError, find, keep
from measured.studies import STUDIES, Command, Study


def main() -> None:
    text, _, more = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        "measured", description=text, epilog=more, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [study.name for study in STUDIES]
    parser.add_argument("only", nargs="*", choices=[*names, []], help="studies to measure; all if none is named")
    parser.add_argument("--again", action="store_true", help="measure also what is stored at this commit")
    parser.add_argument("--pages", action="store_true", help="measure nothing, write the pages")
    asked = parser.parse_args()
    failed = []
    try:
        for study in STUDIES if not asked.pages else ():
            if study.name in (asked.only or names):
                failed += [c for c in study.commands if not measured(study, c, asked.again)]
    except KeyboardInterrupt:
        sys.exit("\nstopped: finished studies are stored, and the same command continues")
    for page in write():
        print(f"written: {page.relative_to(ROOT)}")
    if failed:
        sys.exit(f"as stored before, because they failed: {', '.join(c.line for c in failed)}")


def measured(study: Study, command: Command, again: bool) -> bool:
    """Run one command and store its reports, unless they are stored at this commit; False if it failed."""
    if not again and all(stored_at(report) == commit() for report in command.reports):
        print(f"{study.name}: {command.line}: stored at this commit", flush=True)
        return True
    print(f"{study.name}: {command.line}, about {command.minutes:g} minutes", flush=True)
    for report in command.reports:
        written(report).unlink(missing_ok=True)
    began = time.perf_counter()
    # One thread for BLAS, as in the tests: the kernels have their own threads.
    ended = subprocess.run(
        [sys.executable, *shlex.split(command.line)[1:]], cwd=ROOT, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    )
    print(f"{study.name}: {time.perf_counter() - began:.0f} s", flush=True)
    there = [report for report in command.reports if written(report).exists()]
    for report in there:
        keep(written(report), command.line)
    return ended.returncode == 0 and len(there) == len(command.reports)


def written(report: str) -> Path:
    """The file that a benchmark writes for a report."""
    return OUT / f"{report}.json"


def stored_at(report: str) -> str | None:
    """The commit at which a report was measured."""
    try:
        at: str = find(report).content["commit"]
    except NotMeasuredError:
        return None
    return at


if __name__ == "__main__":
    main()
