"""`rslm complete`: fit a model to some entries of a matrix, show its error on others, write the filled matrix."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from rslm import MatrixCompletion, MatrixCompletionCV
from rslm.cli import options as o
from rslm.cli.cluster import complete_on_cluster
from rslm.cli.output import claim, done_before, end, remarks_on, screen, show
from rslm.cli.progress import FitProgress
from rslm.data import ObservedMatrix, holdout, read_source
from rslm.estimators.choices import as_loss
from rslm.estimators.completion import Completion
from rslm.estimators.completion.bounds import cost_in_words
from rslm.estimators.defaults import usual_C, with_width
from rslm.report import completion_report, write_report
from rslm.storage.atomic import atomic_text

MOST_TO_TRY = 5_000_000  # at most this many entries: C is found by cross-validation even without --tune
FEW = 20  # at most this many entries: none are held out
ROWS_AT_ONCE, ENTRIES_AT_ONCE = 256, 1 << 17


def complete(
    data: o.DataFile,
    rank: Annotated[int, typer.Option(min=1, help="Maximum rank of the completed matrix.")] = 10,
    c: Annotated[
        float | None, typer.Option("--C", help="Weight of the loss; larger fits closer. Chosen if not given.")
    ] = None,
    loss: Annotated[
        str, typer.Option(help="square, absolute, huber, epsilon_insensitive, quantile:0.9, logistic, hinge …")
    ] = "square",
    tune: Annotated[
        bool, typer.Option("--tune", help="Find the rank too: try half of --rank, --rank, and twice --rank.")
    ] = False,
    lower: Annotated[float | None, typer.Option(help="Lower bound on every entry.")] = None,
    upper: Annotated[float | None, typer.Option(help="Upper bound on every entry.")] = None,
    weighting: Annotated[float, typer.Option(help="Weighted trace norm; 0 for the plain one.")] = 0.5,
    held: Annotated[
        float, typer.Option("--holdout", min=0.0, max=0.9, help="Fraction of the entries to test on.")
    ] = 0.1,
    model: Annotated[Path | None, typer.Option(help="Write the model here.", rich_help_panel=o.WRITING)] = None,
    fill: Annotated[
        Path | None, typer.Option(help="Write the filled matrix here, as CSV.", rich_help_panel=o.WRITING)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a report here, as HTML.", rich_help_panel=o.WRITING)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the held-out part and of the start.")] = 0,
    max_time: o.MaxTime = None,
    rows: o.Rows = None,
    cols: o.Cols = None,
    values: o.Values = None,
    weight: o.Weight = None,
    delimiter: o.Delimiter = None,
    header: o.Header = None,
    encoding: o.Encoding = None,
    layout: o.TableLayout = None,
    variable: o.Variable = None,
    duplicates: o.Duplicates = "error",
    checkpoint: o.Checkpoint = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Address of a Dask scheduler whose workers do the fit; DATA is prepared data or Parquet."),
    ] = None,
    force: o.Force = False,
    json: o.Json = False,
) -> None:
    """Complete a matrix from some of its entries, and say how good the answer is.

    Example: rslm complete ratings.csv --lower 1 --upper 5 --model ratings.rslm
    """
    console = screen(json)
    claim(force, model, fill, report, read=[data], checkpoint=checkpoint)
    before = done_before(console, checkpoint)
    shared: dict[str, Any] = {"loss": loss, "weighting": weighting, "random_state": seed, "max_time": max_time}
    shared["bounds"] = None if lower is None and upper is None else (lower, upper)
    if scheduler is not None:
        here = {"--tune": tune, "--fill": fill, "--report": report, "--rows": rows, "--cols": cols, "--values": values}
        if given := [name for name, value in here.items() if value]:
            raise ValueError(
                f"{', '.join(given)} cannot be combined with --scheduler, as only the workers have the entries; leave "
                f"{'it' if len(given) == 1 else 'them'} out"
            )
        complete_on_cluster(console, data, scheduler, rank, c, held, shared, model, checkpoint, before, json, weight)
        return
    with console.status(f"Reading {data} …"):
        source = read_source(
            data,
            delimiter=delimiter,
            header=header,
            encoding=encoding,
            layout=layout,
            rows=rows,
            cols=cols,
            values=values,
            weights=weight,
            variable=variable,
            duplicates=duplicates,  # type: ignore[arg-type]
        )
    matrix = source.data
    console.print(f"{data}: {source.how}")
    console.print(f"{matrix.shape[0]:,} × {matrix.shape[1]:,}, {len(matrix):,} entries ({100 * matrix.density:.3g} %)")
    if line := cost_in_words(shared["bounds"], matrix.shape, rank):
        console.print(line)
    train, test = holdout(matrix, held, seed) if held > 0 and len(matrix) > FEW else (matrix, None)
    loss = shared["loss"] = with_width(loss, matrix.values)
    ranks = sorted({max(rank // 2, 1), rank, 2 * rank}) if tune else [rank]
    estimator: Completion
    usual = usual_C(train.shape, train.values, as_loss(loss))
    searched = tune or (c is None and FEW < len(train) <= MOST_TO_TRY)
    if searched and checkpoint is not None:
        raise ValueError(
            f"--checkpoint {checkpoint} is for one fit, but {'--tune' if tune else 'finding C'} takes many; give --C"
            f"{' and leave --tune out' if tune else ''}: --C {usual:.4g} is usual for such data"
        )
    if searched:
        estimator = MatrixCompletionCV(ranks, None if c is None else [c], **shared)
    else:
        estimator = MatrixCompletion(min(rank, *matrix.shape), usual if c is None else c, **shared)
    name, measure = ("held-out accuracy", accuracy) if as_loss(loss).binary else ("held-out RMSE", rmse)
    error = (lambda fitted: measure(fitted, test)) if test is not None else None
    began = time.perf_counter()
    with remarks_on(console, {"samples": "rows", "features": "columns"}):
        estimator.set_callbacks(FitProgress(console, error, name, before)).fit(train, checkpoint=checkpoint)
    seconds = time.perf_counter() - began
    facts = result(estimator, train, test, seconds)
    try:
        if model is not None:
            estimator.save(model, known=matrix)
            facts["model"] = str(model)
        if fill is not None:
            write_filled(estimator, matrix, fill)
            facts["filled"] = str(fill)
        if report is not None:
            write_report(completion_report(estimator, train, test, title=Path(data).name, how=source.how), report)
            facts["report"] = str(report)
    finally:  # also after Ctrl-C: it lists the files that were written
        show(console, "Result", facts, json)
    console.print(estimator.certificate_.verdict)
    if facts.get("held_out_RMSE", 0.0) > facts.get("RMSE_of_the_mean", np.inf):
        console.print("Note: the mean predicts held-out entries better. Try --tune, another --loss, or --weighting 0.")
    end(console, estimator, checkpoint)


def rmse(model: Any, data: ObservedMatrix) -> float:
    return root_mean_square(learned(model, data) - data.values, data.weights)


def root_mean_square(errors: NDArray[np.float64], weights: Any = None) -> float:
    """The root mean square, also if squares overflow."""
    size = float(np.abs(errors).max(initial=0.0))
    return size * float(np.sqrt(np.average((errors / size) ** 2, weights=weights))) if size > 0 else 0.0


def accuracy(model: Any, data: ObservedMatrix) -> float:
    return float(np.average((learned(model, data) > 0) == (data.values > 0), weights=data.weights))


def learned(model: Any, data: ObservedMatrix) -> NDArray[np.float64]:
    """The learned matrix at the entries of `data`, which has the same shape."""
    rows, found = data.rows_of_entries(), np.empty(len(data))
    for start in range(0, len(data), ENTRIES_AT_ONCE):
        at = slice(start, start + ENTRIES_AT_ONCE)
        np.einsum("ij,ij->i", model.row_factors_[rows[at]], model.col_factors_[data.index[at]], out=found[at])
    return found


def held_out_facts(model: Completion, train: ObservedMatrix, test: ObservedMatrix) -> dict[str, float]:
    """The error on held-out entries, and that of the simplest prediction, both by weights if there are any."""
    if model.classes_ is not None:
        ones = float(np.average(test.values > 0, weights=test.weights))
        guess = ones if np.average(train.values > 0, weights=train.weights) > 0.5 else 1.0 - ones
        return {"held_out_accuracy": accuracy(model, test), "accuracy_of_the_more_frequent_class": guess}
    mean = root_mean_square(test.values - np.average(train.values, weights=train.weights), test.weights)
    facts = {"held_out_RMSE": rmse(model, test), "RMSE_of_the_mean": mean}
    if model.loss != "square":  # a few gross errors may dominate the RMSE
        facts["held_out_median_error"] = float(np.median(np.abs(learned(model, test) - test.values)))
    return facts


def result(model: Completion, train: ObservedMatrix, test: ObservedMatrix | None, seconds: float) -> dict[str, Any]:
    C = model.best_C_ if isinstance(model, MatrixCompletionCV) else model.C
    facts: dict[str, Any] = {"entries": len(train), "rank": model.rank_, "C": float(C), "loss": model.loss}
    if test is not None:
        facts |= {"held_out_entries": len(test)} | held_out_facts(model, train, test)
    facts |= {"outcome": model.outcome_, "iterations": model.n_iter_, "seconds": seconds}
    return facts | {"relative_gap": float(model.certificate_.relative_gap)}


def write_filled(model: Completion, matrix: ObservedMatrix, path: Path) -> None:
    """Write all entries, observed ones unchanged, a block of rows at a time."""
    known = matrix.to_csr()
    with atomic_text(path) as file:
        writer = csv.writer(file)
        names = range(1, matrix.shape[1] + 1) if matrix.col_ids is None else matrix.col_ids
        writer.writerow(["", *names])
        for start in range(0, matrix.shape[0], ROWS_AT_ONCE):
            block = model.row_factors_[start : start + ROWS_AT_ONCE] @ model.col_factors_.T
            if model.classes_ is not None:
                block = model.classes_[(block > 0).astype(int)]
            for k, row in enumerate(block, start):
                at = slice(known.indptr[k], known.indptr[k + 1])
                row[known.indices[at]] = known.data[at]
                writer.writerow([k + 1 if matrix.row_ids is None else matrix.row_ids[k], *(f"{v:.6g}" for v in row)])
