"""Forecasts beside other methods, and how often their intervals cover."""

from __future__ import annotations

from measured.store import find
from measured.written import Columns, columns, first, fixed, share, with_circumstances
from tabular import table

METHODS = {
    "HankelModel": "`HankelModel`",
    "ARIMA": "ARIMA",
    "ETS": "exponential smoothing (ETS)",
    "UC": "unobserved components",
    "Theta": "Theta",
    "naive": "seasonal naive",
}
SERIES = {
    "air-passengers": "logarithm of air passengers",
    "co2": "weekly carbon dioxide",
}


def forecasts() -> str:
    real, made = find("forecasts-real"), find("forecasts-generated")
    lines = []
    for row in real.rows:
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
    return with_circumstances(table(head, lines), real, made)


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
