"""Effects of treatments: errors compared with other methods, and coverage."""

from __future__ import annotations

from measured.store import find
from measured.written import Columns, columns, first, share, with_circumstances
from tabular import table

KINDS = {
    "factors": "factors",
    "factors with a trend": "factors with a trend",
    "50 × 50": "50 × 50",
    "weak factors": "weak factors, half as large",
    "random adoption": "adoption at random",
    "correlated noise": "noise with autocorrelation 0.5",
    "no factors": "no factors",
}
METHODS = {
    "difference-in-differences": "difference-in-differences",
    "synthetic control": "synthetic control",
    "soft-impute, 100 steps": "MC-NNM, soft-impute",
    "PanelCompletion, debias=False": "MC-NNM, certified",
    "PanelCompletion": "`PanelCompletion`",
}


def compare() -> str:
    report = find("panels_compare")
    lines = []
    for kind, title in KINDS.items():
        rows = [first(report.rows, kind=kind, method=method) for method in METHODS]
        least = min(f"{row['RMSE']:.2f}" for row in rows)
        marks = ["**" if f"{row['RMSE']:.2f}" == least else "" for row in rows]
        cells = [f"{m}{r['RMSE']:.2f}{m} ({signed(r['bias'])})" for r, m in zip(rows, marks, strict=True)]
        lines.append([title, *cells])
    return with_circumstances(table(["RMSE (bias)", *METHODS.values()], lines), report)


def signed(value: float) -> str:
    """With two digits, a true minus, and no minus before zero."""
    return f"{value:z.2f}".replace("-", "−")


def coverage() -> str:
    report = find("panels_coverage")
    rows = [row | {"title": KINDS[row["kind"]]} for row in report.rows]
    asked: Columns = {
        "": ("title", str),
        "`inference`": ("inference", str),
        "panels": ("panels", str),
        "coverage of 95 % intervals": ("coverage", share(1)),
    }
    return with_circumstances(columns(rows, asked), report)


PLACES = {"panels": compare, "panel-coverage": coverage}
