"""The parts of the demonstration, one after the other, and the report about them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from rslm.cli.tour.image import repair
from rslm.cli.tour.ratings import predict_ratings
from rslm.cli.tour.series import forecast
from rslm.cli.tour.sizes import Sizes
from rslm.cli.tour.tasks import relate
from rslm.report import write_report
from rslm.report.page import Part, page, write_picture

SIZES = Sizes()
PARTS: dict[str, Callable[[Sizes, int, Console], Part]] = {
    "Image repair": repair,
    "Ratings within bounds": predict_ratings,
    "A series and its forecast": forecast,
    "Related regressions": relate,
}
REPORT = "demo.html"
INTRODUCTION = (
    "<p>Written by <code>rslm demo</code>. "
    "Rank, order and C are found on the training data unless the text says that they are given. The generated data are "
    "of the kind that the models are made for.</p>"
)


def tour(sizes: Sizes, seed: int, console: Console) -> list[Part]:
    """Run all parts and show each when it is done."""
    parts = []
    for number, (title, part) in enumerate(PARTS.items(), 1):
        console.print(f"\n[bold]{number} of {len(PARTS)}: {title}[/bold]", highlight=False)
        began = time.perf_counter()
        parts.append(part(sizes, seed, console))
        console.print(as_table(parts[-1]))
        console.print(parts[-1].verdict, highlight=False)
        console.print(f"{time.perf_counter() - began:.1f} s", style="dim", highlight=False)
    return parts


def as_table(part: Part) -> Table:
    table = Table(*part.header)
    for row in part.rows:
        table.add_row(*row)
    return table


def write(parts: list[Part], out: Path) -> Path:
    """Write the pictures, then the report, which contains them too."""
    for part in parts:
        write_picture(part.picture, out / f"{part.name}.png")
    write_report(page("What rslm does", [INTRODUCTION, *(part.html() for part in parts)]), out / REPORT)
    return out / REPORT
