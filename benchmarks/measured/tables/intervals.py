"""Whether intervals of completed matrices cover what they promise."""

from __future__ import annotations

from measured.store import find
from measured.written import with_circumstances
from tabular import table

DATA = {"ml-100k": "MovieLens-100K", "ml-1m": "MovieLens-1M", "heavy-tails": "generated, heavy tails"}


def completion() -> str:
    report = find("intervals-completion")
    lines = [
        [
            DATA[row["data"]],
            f"{100 * row['covered']:.1f} % ({100 * row['least']:.1f} to {100 * row['most']:.1f})",
            f"{100 * row['rows with fewest entries']:.1f} %",
            f"{100 * (row['mean width'] / row['unscaled'] - 1):+.1f} %".replace("-", "−"),
            f"{row['cost, settings found']:.2f} / {row['cost, settings given']:.2f} fits",
        ]
        for row in report.rows
    ]
    head = ["", "covered", "in the tenth of the rows with fewest entries", "mean width relative to a constant width"]
    return with_circumstances(table([*head, "cost, settings found / given"], lines), report)


PLACES = {"intervals": completion}
