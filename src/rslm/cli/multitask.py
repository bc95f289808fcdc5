"""`rslm multitask`: many related regressions from one table."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from rslm.cli import options as o


def multitask(
    table: Annotated[
        str, typer.Argument(help="One row a line: features, a target and the task; - for standard input.")
    ],
    task: Annotated[str, typer.Option(help="The column of the tasks: name or number.")],
    target: Annotated[str, typer.Option(help="The column of the target.")],
    leave: Annotated[str | None, typer.Option(help="Columns to leave out, separated by commas.")] = None,
    rank: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum dimension of the subspace that the tasks share; found if not given."),
    ] = None,
    c: Annotated[
        float | None, typer.Option("--C", help="Weight of the loss: a larger C fits more closely. Found if not given.")
    ] = None,
    loss: Annotated[str, typer.Option(help="square, huber, absolute …")] = "square",
    held: Annotated[
        float,
        typer.Option("--holdout", min=0.0, max=0.9, help="Fraction of the rows of each task to hold out for testing."),
    ] = 0.25,
    interval: Annotated[
        float | None,
        typer.Option(help="Report the width of intervals that cover this fraction of new rows, such as 0.9."),
    ] = None,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out rows without a target.")] = False,
    weight: Annotated[
        str | None, typer.Option(help="The column of weights: a row of weight 2 counts twice, 0 leaves it out.")
    ] = None,
    max_time: o.MaxTime = None,
    model: Annotated[Path | None, typer.Option(help="Write the model here.", rich_help_panel=o.WRITING)] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the held-out part and of the start.")] = 0,
    delimiter: o.Delimiter = None,
    header: o.Header = None,
    encoding: o.Encoding = None,
    checkpoint: o.Checkpoint = None,
    force: o.Force = False,
    json: o.Json = False,
) -> None:
    """Learn a linear regression for every task, with coefficients in a shared subspace.

    Example: rslm multitask exams.csv --task school --target score
    """
    import numpy as np

    from rslm import MultiTaskRegressor
    from rslm.cli.found import in_words, search_facts, verdict
    from rslm.cli.output import claim, done_before, end, remarks_on, screen, show
    from rslm.cli.progress import FitProgress
    from rslm.cli.task_rows import held_out, intervals, rmse, weights_of_rows
    from rslm.data.files import read_table
    from rslm.evaluate.intervals import check_coverage

    if interval is not None:
        check_coverage(interval)

    console = screen(json)
    claim(force, model, read=[table], checkpoint=checkpoint)
    before = done_before(console, checkpoint)
    read = read_table(table, delimiter=delimiter, header=header, encoding=encoding)
    labels, (name, y) = read.ids(task), read.numbers(target)
    if name == read.column(task):
        raise ValueError(f"{name!r} cannot be both the task and the target")
    aside = [read.column(c) for c in leave.split(",")] if leave else []
    weights = None if weight is None else weights_of_rows(read, weight, [name, read.column(task)])
    aside += [] if weight is None else [read.column(weight)]
    names, X = read.matrix(without=[read.column(task), name, *aside])
    if weights is not None:  # a row of weight 0 is not there
        labels, y, X, weights = (part[weights > 0] for part in (labels, y, X, weights))
    console.print(f"{table}: {read.how}")
    tasks, listed = len(set(labels.tolist())), ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
    console.print(f"{len(y):,} rows, {tasks:,} tasks, target {name!r}, {len(names)} features: {listed}")
    mean, size = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    test = held_out(labels, held, seed)
    asked: Any = "auto" if rank is None else min(rank, len(names)), "auto" if c is None else c
    estimator = MultiTaskRegressor(*asked, loss=loss, random_state=seed, max_time=max_time)
    began = time.perf_counter()
    scaled, known = (X - mean) / size, test & ~np.isnan(y)  # features of equal variance
    of_test = None if weights is None else weights[known]
    error = (lambda m: rmse(m, scaled[known], labels[known], y[known], of_test)) if known.any() else None
    with remarks_on(console):
        estimator.set_callbacks(FitProgress(console, error, before=before))
        train: dict[str, Any] = {"tasks": labels[~test], "drop_missing": drop_missing}
        train["sample_weight"] = None if weights is None else weights[~test]
        estimator.fit(scaled[~test], y[~test], **train, checkpoint=checkpoint).unscaled(mean, size)
    facts: dict[str, Any] = {"rows": int((~test).sum()), "tasks": tasks, "rank": estimator.rank_, "C": estimator.C_}
    facts["task_part"] = estimator.task_part_
    if known.any():
        missed = rmse(estimator, X[known], labels[known], y[known], of_test)
        facts |= {"held_out_rows": int(known.sum()), "held_out_RMSE": missed}
        spread = np.average((y[known] - np.average(y[known], weights=of_test)) ** 2, weights=of_test)
        facts["part_explained"] = float(1 - missed**2 / spread)
    no_intervals = None
    if interval is not None:
        try:
            facts |= intervals(estimator, (X, labels, y), known, interval)
        except ValueError as error:  # too few rows were held out; the model is kept
            no_intervals = f"No intervals: {error}"
    facts |= {"outcome": estimator.outcome_, "seconds": time.perf_counter() - began}
    certificate = estimator.certificate_
    if certificate is not None:
        facts["relative_gap"] = float(certificate.relative_gap)
    facts |= search_facts(estimator)
    if model is not None:
        estimator.save(model)
        facts["model"] = str(model)
    show(console, "Result", facts if json else {k: v for k, v in facts.items() if k != "search"}, json)
    for line in in_words(estimator):
        console.print(line)
    if no_intervals is not None:
        console.print(no_intervals)
    console.print(verdict(estimator))
    end(console, estimator, checkpoint)
