"""Losses other than the square: recovery under outliers, what they cost, one-bit data."""

from __future__ import annotations

from measured.store import find
from measured.written import Columns, columns, first, fixed, grid, power, share, with_circumstances

OUTLIERS = 0.0, 0.02, 0.08, 0.15, 0.3
LINES = {
    "absolute loss, no noise": ("Absolute()", 0.0),
    "square loss, no noise": ("Square()", 0.0),
    "absolute loss, noise 0.1": ("Absolute()", 0.1),
    "Huber loss, noise 0.1": ("Huber(delta=0.1)", 0.1),
    "square loss, noise 0.1": ("Square()", 0.1),
}


def recovery() -> str:
    report = find("robust_recovery")
    across = {f"{100 * part:.0f} %": part for part in OUTLIERS}

    def cell(line: str, column: str) -> str:
        loss, noise = LINES[line]
        value = first(report.rows, loss=loss, noise=noise, outliers=across[column])["relative error"]
        return power(value) if value < 1e-2 else f"{value:.3f}"

    body = grid("relative error; observed entries with outliers:", list(LINES), list(across), cell)
    return with_circumstances(body, report)


def cost() -> str:
    report = find("robust_time")
    rows = [row for row in report.rows if row["relative gradient"] == 1e-3]
    asked: Columns = {
        "MovieLens-1M, rank 10, to a relative gradient of 1e-3": ("loss", str),
        "seconds": ("seconds", fixed(2)),
        "relative to the square loss": ("of the square loss", fixed(1)),
    }
    return with_circumstances(columns(rows, asked), report)


def onebit() -> str:
    report = find("robust_onebit")
    asked: Columns = {
        "noise": ("data", str),
        "accuracy on unobserved entries": ("accuracy on the rest", share(1)),
        "with the true parameters": ("of the true parameters", share(1)),
    }
    return with_circumstances(columns(report.rows, asked), report)


PLACES = {"recovery": recovery, "losses": cost, "onebit": onebit}
