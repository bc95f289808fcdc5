"""Computes the tables and figures of the paper, and writes docs/paper.md.

    make paper [QUICK=1] [ONLY="completion hankel"] [JOBS=2]

Stop it at any time: what is finished is not computed again. With ONLY some studies are computed, and the page has those
whose results are there. MovieLens-10M, MovieLens-20M and Netflix are used if RSLM_ML_10M, RSLM_ML_20M and RSLM_NETFLIX
are the paths of the data, as `rslm.datasets` reads them.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from pathlib import Path

from paper.cells import Missing, Plan, Section, Store, computed, one_thread, run, stored
from paper.page import DOCS, write

STUDIES = ("data", "completion", "synthetic", "robust", "nonnegative", "hankel", "tasks")
OUT = Path(os.environ.get("RSLM_OUT", "out")) / "paper"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", choices=[*STUDIES, []], help="studies to compute; all if none is named")
    parser.add_argument("--quick", action="store_true", help="small data; writes to out/paper/quick, not to docs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cells computed at the same time")
    asked = parser.parse_args()
    one_thread()
    store = Store(OUT / ("quick" if asked.quick else "full") / "cells")
    began = time.perf_counter()
    sections = []
    for name in STUDIES:
        wanted = name in (asked.only or STUDIES)
        say(name if wanted else f"{name}: as it is stored")
        try:
            results = computed(store, asked.jobs, say) if wanted else stored(store)
            sections.append(run(study(name, asked.quick), results))
        except KeyboardInterrupt:
            sys.exit("\nstopped: finished cells are kept, and the same command continues")
        except Missing as what:
            sections.append(Section(name.capitalize(), f"Not computed: {what}.\n"))
    folder = OUT / "quick" if asked.quick else DOCS
    say(f"written to {write(sections, store, folder, asked.quick)} after {time.perf_counter() - began:.0f} s")


def study(name: str, quick: bool) -> Plan:
    plan: Plan = importlib.import_module(f"paper.studies.{name}").study(quick)
    return plan


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
