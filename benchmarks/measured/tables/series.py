"""Series: impulse responses, orders, complex signals, spikes and gaps, long series, channels."""

from __future__ import annotations

from measured.store import find
from measured.written import Columns, bold_least, columns, first, fixed, with_circumstances
from tabular import table

SETS = {
    "D1": "D1: order 5, 199 samples, 20 systems",
    "D2": "D2: order 10, 1,099 samples, 10 systems",
    "D3": "D3: order 20, 10,999 samples, 3 systems",
}
METHODS = {"HankelModel": "HankelModel", "SLRA": "maximum likelihood (SLRA)", "HTLS": "HTLS", "Cadzow": "Cadzow"}
METHODS |= {"SSA": "SSA"}
ERROR = "/ Cramér–Rao"
SIZE = "10 × RMS"  # of the spikes


def hankel() -> str:
    report, memory = find("hankel-paper"), find("hankel-memory")
    lines = []
    for name, title in SETS.items():
        for k, rank in enumerate((5, 10, 20)):
            of = {row["method"]: row for row in report.rows if row["set"] == name and row["rank"] == rank}
            errors = {method: of[method][ERROR] for method in METHODS}
            errors["SLRA"] = min(errors["SLRA"], of["SLRA, short start"][ERROR])
            cells = bold_least([(e, f"{e:.2f}") for e in errors.values()])
            lines.append([title if k == 0 else "", str(rank), *cells, f"{of['HankelModel']['CPU s']:.2f}"])
    head = ["RMSE relative to the Cramér–Rao level", "limit", *METHODS.values(), "CPU s, HankelModel"]
    words = f"A fit of D3 takes {memory.rows[0]['MB beyond the imports']:.0f} MB."
    return with_circumstances(f"{table(head, lines)}\n{words}", report, memory)


def orders() -> str:
    report = find("series-orders")
    sizes = sorted({row["samples"] for row in report.rows})
    lines = [
        [noise, *(first(report.rows, noise=noise, samples=n)["orders found"] for n in sizes)]
        for noise in dict.fromkeys(row["noise"] for row in report.rows)
    ]
    body = table(["order found; noise", *(f"{n:,} samples" for n in sizes)], lines)
    largest, seconds = (max(row[key] for row in report.rows) for key in ("largest modulus", "CPU s"))
    words = f"No pole has a modulus above {largest:.6f}. The mean time of a fit is at most {seconds:.1f} CPU seconds."
    return with_circumstances(f"{body}\n{words}", report)


def complex_series() -> str:
    report = find("series-complex-generated")
    rows = []
    for row in report.rows:
        if row["method"] == "HankelModel":
            other = first(report.rows, **{k: row[k] for k in ("lines", "samples", "noise")}, method="HSVD, true order")
            theirs = f"{other['frequency']:.2f}, {other['damping']:.2f}"
            rows.append(row | {"size": f"{row['lines']}, {row['samples']:,}", "HSVD": theirs})
    asked: Columns = {
        "lines, samples": ("size", str),
        "noise": ("noise", str),
        "order found": ("orders found", str),
        "frequency": ("frequency", fixed(2)),
        "damping": ("damping", fixed(2)),
        "amplitude": ("amplitude", fixed(2)),
        "CPU s": ("CPU s", fixed(2)),
        "HSVD: frequency, damping": ("HSVD", str),
    }
    return with_circumstances(columns(rows, asked), report)


def spikes() -> str:
    spiked, missing = find("series-spikes"), find("series-missing")
    # Spikes of two sizes have nearly the same errors, except of the square loss.
    kept = ("huber", "absolute", "square", "spikes known", "30 % missing")
    rows = [
        row
        for report in (spiked, missing)
        for row in report.rows
        if row["fit"] in kept and row.get("spikes", SIZE) == SIZE
    ]
    asked: Columns = {
        "systems": ("systems", str),
        "fit": ("fit", str),
        "RMSE relative to the clean series": ("ratio", fixed(2)),
        "median": ("median ratio", fixed(2)),
    }
    return with_circumstances(columns(rows, asked), spiked, missing)


def long_series() -> str:
    report = find("series-long")
    asked: Columns = {
        "missing": ("missing", str),
        "order": ("order", str),
        "noise": ("noise", str),
        "orders found": ("orders found", str),
        "RMSE relative to Cramér–Rao": (ERROR, fixed(2)),
        "relative to SLRA": ("/ SLRA", fixed(3)),
        "CPU s": ("CPU s", fixed(1)),
    }
    return with_circumstances(columns(report.rows, asked), report)


def channels() -> str:
    report = find("series-channels")
    asked: Columns = {
        "channels": ("channels", str),
        "orders found": ("orders found", str),
        "largest error of a channel relative to the oracle's": ("largest ratio", fixed(3)),
        "CPU s": ("CPU s", fixed(2)),
    }
    return with_circumstances(columns(report.rows, asked), report)


PLACES = {
    "hankel": hankel,
    "orders": orders,
    "complex-series": complex_series,
    "spikes": spikes,
    "long-series": long_series,
    "channels": channels,
}
