"""Is the first fit right without a setting?

    python benchmarks/first_fit [--data ratings|tables|tasks|NAME] [--seeds N] [--only CONTESTANT] [--cache FILE]

`MatrixCompletion().fit(X)`, `MultiTaskRegressor().fit(X, y, tasks=…)` and `MultiTaskClassifier().fit(X, y)`, compared
with what else needs no setting: the mean, effects alone, other recommenders and imputers with their defaults, ridge
regressions and convex MTFL with weights chosen by cross-validation. Required is an error of at most 1.01 times that
of the best of them on every data set, and never more than that of effects alone.

ratings: RMSE of 20 % of the ratings.
tables: RMSE of the removed entries, every column divided by its standard deviation.
tasks: mean square error relative to the variance of held-out targets (NMSE); for digits, the share of wrong classes.

The other recommenders run in the Python of $RSLM_OTHER_PYTHON, which needs `pip install cmfrec threadpoolctl cornac
scikit-surprise`; what is missing is left out, with a sentence. Real data are in $RSLM_DATA, or else in ../shared/data.
With --cache, results of all but rslm are kept in a file and not computed again; delete it if a data set or a contestant
has changed. --data and --only may be given several times; with --only, the others are shown if they are in the file.
IterativeImputer takes four to six minutes for every split of the image.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import entry_contestants
import numpy as np
import rating_sets
import table_sets
import task_contestants
import task_sets
from cases import AbsentError, Contestant, Maker
from results import OURS, Results
from summary import Count, show

from common import report

FAMILIES: dict[str, tuple[dict[str, Maker], dict[str, Contestant]]] = {
    "ratings": (rating_sets.SETS, entry_contestants.RATINGS),
    "tables": (table_sets.SETS, entry_contestants.TABLES),
    "tasks": (task_sets.SETS, task_contestants.TASKS),
}


def arguments() -> argparse.Namespace:
    text, _, more = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser("first_fit", description=text, epilog=more)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    sets = [name for family, _ in FAMILIES.values() for name in family]
    tables = list(table_sets.TABLES)
    parser.add_argument("--data", action="append", metavar="NAME", choices=[*FAMILIES, *sets, *tables])
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="number of splits of every data set")
    who = dict.fromkeys(name for _, family in FAMILIES.values() for name in family)
    parser.add_argument("--only", action="append", metavar="CONTESTANT", choices=list(who))
    parser.add_argument("--cache", type=Path, metavar="FILE", help="JSON file for the results of the others")
    return parser.parse_args()


def compete(data: str, seeds: list[int], maker: Maker, contestants: dict[str, Contestant], results: Results) -> None:
    """All contestants on one data set; a contestant that is absent is asked only once."""
    absent: set[str] = set()
    for seed in seeds:
        missing = [who for who in contestants if who not in absent and not results.has(data, seed, who)]
        try:
            case = maker(seed) if missing else None
        except AbsentError as reason:
            print(f"{data}, seed {seed}, is left out: {reason}")
            return
        for who in missing:
            try:
                error, seconds = outcome(contestants[who], case, ours=who in OURS)
            except AbsentError as reason:
                print(f"{who} is left out of {data}: {reason}")
                absent.add(who)
                continue
            results.add(data, seed, who, error, seconds)
            print(f"{data}, seed {seed}, {who}: {error:.4f} in {seconds:.2f} s", file=sys.stderr, flush=True)


def outcome(contestant: Contestant, case: Any, ours: bool) -> tuple[float, float]:
    """Error and seconds. A fit of ours that fails has an infinite error; one of the others stops the benchmark."""
    try:
        prediction, seconds = contestant(case)
    except AbsentError:
        raise
    except Exception as failure:
        if not ours:
            raise
        print(f"rslm has failed: {type(failure).__name__}: {failure}")
        return float("inf"), float("nan")
    error = case.error(prediction)
    return float("inf") if np.isnan(error) else error, seconds


def main() -> None:
    options = arguments()
    warnings.simplefilter("ignore")
    seeds, results = list(range(options.seeds)), Results(options.cache)
    counts: dict[str, Count] = {}
    for family, (sets, contestants) in FAMILIES.items():
        asked = options.data or [family]
        tables = {d: d.rpartition("-")[0] for d in table_sets.SETS}  # one name for all shares
        chosen = [d for d in sets if {family, d, tables.get(d)} & set(asked)]
        running = {w: f for w, f in contestants.items() if not options.only or w in options.only}
        for data in chosen:
            compete(data, seeds, sets[data], running, results)
        if chosen:
            rows = show(results, chosen, seeds, list(contestants), counts)
            report(f"first_fit_{family}", rows, splits=len(seeds))
    print()
    for who, count in counts.items():
        print(f"{who}: {count}")


if __name__ == "__main__":
    main()
