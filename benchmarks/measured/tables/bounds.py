"""What bounds cost."""

from __future__ import annotations

from measured.store import find
from measured.written import Columns, columns, fixed, with_circumstances

WORDS = {"none": "none", "(0, None)": "non-negative", "(1, 5)": "between 1 and 5"}


def bounds() -> str:
    report = find("nonnegative-cost")
    rows = [row | {"title": WORDS[row["bounds"]]} for row in report.rows]
    asked: Columns = {
        "bounds, MovieLens-1M at rank 10": ("title", str),
        "seconds": ("s", fixed(2)),
        "relative to none": ("× without", fixed(1)),
        "MB in addition to the data": ("MB", fixed(0)),
    }
    return with_circumstances(columns(rows, asked), report)


PLACES = {"bounds": bounds}
