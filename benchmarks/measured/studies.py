"""What `make benchmarks` runs, and which reports each command writes.

A command is one of those in this folder, as a user would type it; minutes are those of two cores of a shared machine.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    line: str
    reports: tuple[str, ...]
    minutes: float


@dataclass(frozen=True)
class Study:
    name: str
    commands: tuple[Command, ...]


def study(name: str, *commands: tuple[str, float, tuple[str, ...]]) -> Study:
    return Study(name, tuple(Command(f"python benchmarks/{line}", reports, m) for line, m, reports in commands))


TABLES = "--data passengers --data diabetes --data wine --data breast-cancer"
STUDIES = (
    study(
        "first_fit",
        ("first_fit --data ratings --seeds 3", 6, ("first_fit_ratings",)),
        (f"first_fit {TABLES} --seeds 3", 4, ("first_fit_tables",)),
        ("first_fit --data tasks --seeds 3", 8, ("first_fit_tasks",)),
    ),
    study("location", ("location.py gap", 1, ("location_gap",))),
    study("movielens", ("movielens.py", 1, ("movielens",))),
    study("averages", ("averaging.py 1m", 15, ("averaging",))),
    study("side_information", ("inductive.py folds cold", 15, ("inductive-folds", "inductive-cold"))),
    study("clicks", ("implicit_feedback.py 32 64", 5, ("implicit_feedback_ml-1m",))),
    study(
        "losses",
        ("robust.py recovery", 4, ("robust_recovery",)),
        ("robust.py time", 1, ("robust_time",)),
        ("robust.py onebit", 0.2, ("robust_onebit",)),
    ),
    study("bounds", ("nonnegative.py cost", 1, ("nonnegative-cost",))),
    study("intervals", ("intervals/completion.py", 1.5, ("intervals-completion",))),
    study(
        "panels",
        ("panels.py compare 30", 3, ("panels_compare",)),
        ("panels.py coverage 100 factors 'weak factors' bootstrap", 4, ("panels_coverage",)),
    ),
    study(
        "series",
        ("hankel.py paper memory", 3, ("hankel-paper", "hankel-memory")),
        ("series/orders.py", 2, ("series-orders",)),
        ("series/complex_signals.py generated", 4, ("series-complex-generated",)),
        ("series/robust_series.py spikes missing", 10, ("series-spikes", "series-missing")),
        ("series/long_and_wide.py long channels", 5, ("series-long", "series-channels")),
    ),
    study(
        "forecasts",
        ("series/forecasts.py", 8, ("forecasts-real", "forecasts-generated")),
        ("series/forecast_intervals.py", 5, ("forecast-intervals",)),
    ),
    study("systems", ("series/systems.py", 3, ("systems",))),
    study("large", ("scale.py", 8, ("scale",)), ("streaming.py movielens serving", 1, ("streaming", "serving"))),
    study("kernels", ("kernel --threads 1", 3, ("kernel",))),
)
