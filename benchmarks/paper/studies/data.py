"""The data sets of the paper: sizes as it prints them and as they are here. Nothing is computed in cells."""

from __future__ import annotations

from paper import ratings
from paper.cells import Plan, Section
from tabular import table

TEXT = """\
Rows, columns and entries as the paper prints them, and those of the data used here. Ratings that are not here are used
by the same code where `rslm.datasets` can read them: their path is given in an environment variable. School and
Parkinsons are files of their publishers; impulse responses are generated.
"""


def study(quick: bool) -> Plan:
    """A plan without cells."""
    rows = []
    for name, (d, T, count) in ratings.STATISTICS.items():
        found = None if quick else ratings.load(name)
        here = f"{found[3][0]:,} × {found[3][1]:,}, {len(found[2]):,}" if found else ratings.absent(name)
        rows.append([name, f"{d:,} × {T:,}, {count:,}", "not used in a quick run" if quick else here])
    full = "5,000 × 500,000, 15,149,850"
    rows.append(["Synthetic", full, "generated: 400 × 4,000, 120,000" if quick else f"generated: {full}"])
    return Section("Data sets", TEXT + "\n" + table(["", "printed", "here"], rows))
    yield []
