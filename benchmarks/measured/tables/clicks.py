"""Implicit feedback compared with other tools."""

from __future__ import annotations

from measured.store import find
from measured.written import grid, with_circumstances

METHODS = {
    "rslm": "`ImplicitCompletion`",
    "implicit ALS, CG": "implicit, CG",
    "implicit ALS, Cholesky": "implicit, Cholesky",
    "LensKit implicit": "LensKit",
    "cmfrec implicit": "cmfrec",
    "popularity": "most popular items",
}


def clicks() -> str:
    report = find("implicit_feedback_ml-1m")
    ranks = sorted({row["rank"] for row in report.rows if row["method"] == "rslm"})
    found = {(row["method"], row["rank"]): row for row in report.rows}

    def cell(title: str, column: str) -> str:
        method = next(name for name, shown in METHODS.items() if shown == title)
        row = found.get((method, 1 if method == "popularity" else int(column.split()[1])))
        if row is None:
            return "–"
        scores = f"{row['capped_recall@20']:.3f} / {row['ndcg@100']:.3f}"
        return scores if method == "popularity" else f"{scores} ({row['CPU s']:.1f})"

    there = [title for name, title in METHODS.items() if any(row["method"] == name for row in report.rows)]
    body = grid("capped recall@20 / ndcg@100 (CPU s)", there, [f"rank {rank}" for rank in ranks], cell)
    ours = [found["rslm", rank] for rank in ranks]
    reached = " and ".join(f"{row['CPU s to the recall of CG']:.1f}" for row in ours)
    search = " and ".join(f"{row['CPU s of the search']:.0f}" for row in ours)
    words = (
        f"`ImplicitCompletion` has the recall of implicit's CG after {reached} CPU seconds; its search for settings "
    )
    words += f"took {search}."
    return with_circumstances(f"{body}\n{words}", report)


PLACES = {"clicks": clicks}
