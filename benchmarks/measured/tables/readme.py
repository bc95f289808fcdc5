"""Five lines for README.md: ours, the best other, and the command."""

from __future__ import annotations

from measured.store import find
from measured.tables.clicks import METHODS as CLICKS
from measured.tables.first_fits import best_other, shown
from measured.tables.forecasts import METHODS as FORECASTS
from measured.tables.panels import METHODS as PANELS
from measured.written import Row, first
from tabular import table

RANK = 64  # of the clicks


def lowest(rows: list[Row], key: str, ours: tuple[str, ...]) -> Row:
    return min((row for row in rows if row["method"] not in ours), key=lambda row: float(row[key]))


def ratings() -> list[str]:
    row = first(find("first_fit_ratings").rows, data="ml-1m")
    name, other = best_other(row)
    return ["MovieLens-1M, nothing set: test RMSE", f"{row['rslm']:.4f}", f"{other:.4f}, {shown(name)}", "first_fit"]


def averages() -> list[str]:
    rows = [row for row in find("averaging").rows if row["data"] == "ML-1M seed 0" and row["rank"] == 10]
    ours, other = (first(rows, method=name) for name in ("average 100", "myFM 200"))
    cells = [f"{row['RMSE']:.4f} in {row['CPU s']:.0f} CPU s" for row in (ours, other)]
    return ["the same, Bayesian averages at rank 10", cells[0], f"{cells[1]}, myFM", "averages"]


def clicks() -> list[str]:
    rows = [row for row in find("implicit_feedback_ml-1m").rows if row["rank"] == RANK]
    ours = first(rows, method="rslm")
    other = max((row for row in rows if row is not ours), key=lambda row: float(row["ndcg@100"]))
    title = f"MovieLens-1M as clicks, rank {RANK}: ndcg@100, higher is better"
    return [title, f"{ours['ndcg@100']:.3f}", f"{other['ndcg@100']:.3f}, {CLICKS[other['method']]}", "clicks"]


def forecasts() -> list[str]:
    report = find("forecasts-real")
    ours, other = first(report.rows, method="HankelModel"), lowest(report.rows, "MASE", ("HankelModel",))
    title = f"Forecasts of {report.facts['series']} real series: MASE"
    return [title, f"{ours['MASE']:.3f}", f"{other['MASE']:.3f}, {FORECASTS[other['method']]}", "forecasts"]


def panels() -> list[str]:
    rows = [row for row in find("panels_compare").rows if row["kind"] == "factors"]
    ours = first(rows, method="PanelCompletion")
    other = lowest(rows, "RMSE", ("PanelCompletion", "PanelCompletion, debias=False"))
    title = f"Effect of a treatment in {ours['panels']} generated panels: RMSE"
    return [title, f"{ours['RMSE']:.2f}", f"{other['RMSE']:.2f}, {PANELS[other['method']]}", "panels"]


def readme() -> str:
    lines = [[*line[:3], f"`make benchmarks ONLY={line[3]}`"] for line in (f() for f in LINES)]
    reports = [find(name).content for name in REPORTS]
    dates, commits = (sorted({str(of[key]) for of in reports}) for key in ("date", "commit"))
    machines = ", ".join(dict.fromkeys(find(name).machine for name in REPORTS))
    measured = f"Measured {' and '.join(dates)} at commit {', '.join(commits)} on {machines}."
    return f"{table(['', 'rslm', 'best other', 'command'], lines)}\n{measured}\n"


LINES = ratings, averages, clicks, forecasts, panels
REPORTS = "first_fit_ratings", "averaging", "implicit_feedback_ml-1m", "forecasts-real", "panels_compare"
PLACES = {"readme": readme}
