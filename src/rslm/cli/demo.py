"""`rslm demo`: complete a generated ratings matrix, and say how good the answer is."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from rslm import MatrixCompletion
from rslm.cli.progress import FitProgress
from rslm.data import ObservedMatrix, holdout
from rslm.datasets import make_ratings

C_PER_SIZE = 0.3  # by the error on 5 % of the training ratings, at the default size


def demo(
    out: Annotated[Path, typer.Option(help="Where to write the model.")] = Path("out"),
    users: Annotated[int, typer.Option(min=10)] = 6000,
    items: Annotated[int, typer.Option(min=10)] = 4000,
    ratings: Annotated[int, typer.Option(min=100)] = 1_000_000,
    rank: Annotated[int, typer.Option(min=1)] = 10,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Complete a generated ratings matrix: fit 90 % of the ratings, predict the rest.

    Example: rslm demo --ratings 200000
    """
    console = Console()
    out.mkdir(parents=True, exist_ok=True)  # before any work that would be lost without it
    with console.status(f"Generating {ratings:,} ratings of {items:,} items by {users:,} users …"):
        made = make_ratings(users, items, ratings, random_state=seed)
        train, test = holdout(made.data, 0.1, seed)
    console.print(f"Data: {train.shape[0]:,} users × {train.shape[1]:,} items, {len(train):,} ratings to learn from,")
    console.print(f"      {len(test):,} held out; noise of the ratings {made.noise_floor:.4f}")

    C = C_PER_SIZE * np.sqrt(users * items)
    model = MatrixCompletion(rank=rank, C=C, weighting=0.5, random_state=seed)
    progress = FitProgress(console, lambda fitted: rmse(fitted, test))
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always")
        model.set_callbacks(progress).fit(train)
    seconds = time.perf_counter() - began
    for remark in remarks:
        console.print(f"Note: {remark.message}.")

    path = out / "demo.rslm"
    model.save(path)
    console.print(summary(model, train, test, made.noise_floor, seconds))
    console.print(model.certificate_.verdict)
    console.print(f"Model written to {path}; read it with rslm.load({str(path)!r}).")


def rmse(model: Any, data: ObservedMatrix) -> float:
    error = model.predict(data.rows_of_entries(), data.index) - data.values
    return float(np.sqrt(np.mean(error**2)))


def summary(
    model: MatrixCompletion, train: ObservedMatrix, test: ObservedMatrix, floor: float, seconds: float
) -> Table:
    """What was found, as a table."""
    mean = float(np.sqrt(np.mean((test.values - train.values.mean()) ** 2)))
    evaluations, products = (int(model.history_[k][-1]) for k in ("evaluations", "hessian_products"))
    table = Table(show_header=False, title="Result")
    table.add_row("held-out RMSE", f"{rmse(model, test):.4f}")
    table.add_row("  best possible (noise)", f"{floor:.4f}")
    table.add_row("  predicting the mean", f"{mean:.4f}")
    table.add_row("ended", f"{model.outcome_} after {model.n_iter_} iterations")
    table.add_row("relative duality gap", f"{model.certificate_.relative_gap:.2g}")
    table.add_row("time of the fit", f"{seconds:.2f} s ({evaluations} evaluations, {products} Hessian products)")
    passes = (evaluations + products) * len(train)
    table.add_row("throughput", f"{passes / seconds / 1e6:.0f} million entries a second")
    return table
