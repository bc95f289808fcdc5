"""The first fit, without any setting."""

from __future__ import annotations

from measured.store import find
from measured.written import Row, bold_least, fixed, with_circumstances
from tabular import table

RATINGS = {
    "sparse-ratings": "sparse ratings, 1,500 × 2,000, 35,000 entries, generated",
    "ml-100k": "MovieLens-100K, folds u1 to u3",
    "ml-1m": "MovieLens-1M",
}
TABLES = {
    "passengers": "air passengers, years × months",
    "diabetes": "diabetes",
    "wine": "wine",
    "breast-cancer": "breast cancer",
}
TASKS = {
    "school": "School, 139 tasks",
    "parkinsons": "Parkinsons, 42 tasks",
    "parkinsons-voice": "Parkinsons, without the other score as a feature",
    "rank-3": "generated, coefficients of rank 3",
    "rank-3-same-rows": "the same, all targets in the same rows",
    "unrelated": "generated, unrelated tasks",
    "identical": "generated, identical tasks",
    "digits-200": "digits, 200 rows: share of wrong classes",
    "digits-900": "digits, 900 rows: share of wrong classes",
}
BASELINES = "mean", "effects", "effects-scaled"


OTHERS = {
    "cornac-MF": "cornac MF",
    "ridge-dummies": "one ridge regression with a dummy for each task",
    "ridge-by-task": "a ridge regression for each task",
    "ridge-by-task-alike": "ridge regressions with a common weight",
    "convex-MTFL": "convex multi-task feature learning",
}


def shown(name: str) -> str:
    return OTHERS.get(name, name)


def best_other(row: Row) -> tuple[str, float]:
    others = {name: e for name, e in row.items() if name not in ("data", *BASELINES) and not name.startswith("rslm")}
    name = min(others, key=lambda k: others[k])
    return name, others[name]


def line(title: str, row: Row, effects: str | None, digits: int) -> list[str]:
    name, other = best_other(row)
    form = fixed(digits)
    cells = [(row["rslm"], form(row["rslm"])), (other, form(other))]
    ours, theirs = bold_least(cells)
    return [title, ours, *([] if effects is None else [form(row[effects])]), f"{theirs} {shown(name)}"]


def ratings() -> str:
    report = find("first_fit_ratings")
    rows = {row["data"]: row for row in report.rows}
    lines = [line(title, rows[key], "effects", 3) for key, title in RATINGS.items() if key in rows]
    return with_circumstances(
        table(["test RMSE", "`MatrixCompletion()`", "effects alone", "best other"], lines), report
    )


def tables() -> str:
    report = find("first_fit_tables")
    rows = {row["data"]: row for row in report.rows}
    lines = [
        line(f"{title}, {percent} % removed", rows[f"{key}-{percent}%"], "effects-scaled", 3)
        for key, title in TABLES.items()
        for percent in (10, 30, 50)
        if f"{key}-{percent}%" in rows
    ]
    head = ["RMSE, in standard deviations", "`MatrixCompletion()`", "effects alone", "best other"]
    return with_circumstances(table(head, lines), report)


def tasks() -> str:
    report = find("first_fit_tasks")
    lines = [line(TASKS.get(row["data"], row["data"]), row, None, 4) for row in report.rows]
    return with_circumstances(table(["error relative to variance", "rslm", "best other"], lines), report)


PLACES = {"first-fit-ratings": ratings, "first-fit-tables": tables, "first-fit-tasks": tasks}
