"""Forecasts compared with other methods, and how often their intervals cover."""

from __future__ import annotations

from measured.store import find
from measured.written import Columns, columns, first, fixed, share, with_circumstances
from tabular import table

METHODS = {
    "HankelModel": "`HankelModel`",
    "ARIMA": "ARIMA",
    "ETS": "exponential smoothing (ETS)",
    "UnobservedComponents": "unobserved components",
    "Theta": "Theta",
    "seasonal naive": "seasonal naive",
    "naive": "last value",
}
SERIES = {
    "log air passengers": "logarithm of air passengers",
    "carbon dioxide": "weekly carbon dioxide",
    "sinusoids": "sinusoids, white noise",
    "correlated": "sinusoids, correlated noise",
    "season": "trend and season",
    "season, correlated": "trend and season, correlated noise",
    "15 % missing": "trend and season, 15 % missing",
    "walk": "trend and season, level that wanders",
    "break": "trend and season, level that jumps once",
}


def forecasts() -> str:
    real, made = find("forecasts-real"), find("forecasts-generated")
    lines = []
    for row in sorted(real.rows, key=lambda row: float(row["MASE"])):
        other = first(made.rows, method=row["method"])
        lines.append(
            [
                METHODS.get(row["method"], row["method"]),
                f"{row['MASE']:.3f}",
                f"{row['worst / naive']:.2f}",
                f"{100 * row['coverage']:.1f} %",
                f"{row['seconds']:.2f}",
                f"{other['MASE']:.3f}",
                f"{100 * other['coverage']:.1f} %",
            ]
        )
    title = f"{real.facts['series']} real series: MASE"
    head = ["", title, "worst relative to naive", "90 % intervals cover", "CPU s"]
    head += [f"{made.facts['series']} generated: MASE", "cover"]
    best = [METHODS[min(of.rows, key=lambda row: float(row["MASE"]))["method"]] for of in (real, made)]
    words = f"The lowest error on the real series is that of {best[0]}, on the generated ones that of {best[1]}."
    return with_circumstances(f"{table(head, lines)}\n{words}", real, made)


def intervals() -> str:
    report = find("forecast-intervals")
    rows = [row | {"width": row["ours: width"] / row["naive: width"]} for row in report.rows]
    asked: Columns = {
        "series": ("series", lambda name: SERIES.get(str(name), str(name))),
        "origins": ("origins", str),
        "inside": ("ours", share()),
        "width relative to naive intervals": ("width", fixed(2)),
    }
    return with_circumstances(columns(rows, asked), report)


PLACES = {"forecasts": forecasts, "forecast-intervals": intervals}
