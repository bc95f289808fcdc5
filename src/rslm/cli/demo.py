"""`rslm demo`: what rslm can do, on generated data and an image that comes with scikit-learn."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from rslm.cli.interrupts import INTERRUPTED
from rslm.cli.tour.image import repair
from rslm.cli.tour.ratings import predict_ratings
from rslm.cli.tour.series import forecast
from rslm.cli.tour.sizes import Sizes
from rslm.cli.tour.steps import Stopped, stopping_at_once
from rslm.cli.tour.tasks import relate
from rslm.report import write_report
from rslm.report.page import Part, page, write_picture
from rslm.report.plots import figure

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


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report and its pictures.")] = Path("out"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 0,
) -> None:
    """Repair an image, predict ratings, forecast a series, learn related regressions: half a minute, one report.

    Example: rslm demo --out out
    """
    console = Console()
    figure()  # fail before any work if Matplotlib is missing
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    try:
        with stopping_at_once():
            parts = tour(SIZES, seed, console)
            report = write(parts, out)
    except Stopped:
        console.print("Stopped: no report was written.")
        raise typer.Exit(INTERRUPTED) from None
    console.print(f"\nDone in {time.perf_counter() - began:.0f} s. All of it, with pictures: {report}", soft_wrap=True)


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
