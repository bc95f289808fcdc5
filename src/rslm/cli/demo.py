"""`rslm demo`: what rslm can do, on generated data and an image that comes with scikit-learn."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from rslm.cli.interrupts import INTERRUPTED


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report and its pictures.")] = Path("out"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 0,
) -> None:
    """Repair an image, predict ratings, forecast a series, learn related regressions: half a minute, one report.

    Example: rslm demo --out out
    """
    from rich.console import Console

    from rslm.cli.tour import parts
    from rslm.cli.tour.steps import Stopped, stopping_at_once
    from rslm.report.plots import figure

    console = Console()
    figure()  # fail before any work if Matplotlib is missing
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    try:
        with stopping_at_once():
            report = parts.write(parts.tour(parts.SIZES, seed, console), out)
    except Stopped:
        console.print("Stopped: no report was written.")
        raise typer.Exit(INTERRUPTED) from None
    console.print(f"\nDone in {time.perf_counter() - began:.0f} s. All of it, with pictures: {report}", soft_wrap=True)
