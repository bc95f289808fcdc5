"""`rslm complete`: fit a model to some entries of a matrix, show its error on others, write the filled matrix."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from rslm.cli import options as o

FEW = 20  # at most this many entries: none are held out
AUTO = "auto"


def complete(
    data: o.DataFile,
    rank: Annotated[
        int | None, typer.Option(min=1, help="Maximum rank of the low-rank part. Found if not given.")
    ] = None,
    c: Annotated[
        float | None, typer.Option("--C", help="Weight of the loss: a larger C fits more closely. Found if not given.")
    ] = None,
    loss: Annotated[
        str, typer.Option(help="square, absolute, huber, epsilon_insensitive, quantile:0.9, logistic, hinge …")
    ] = "square",
    effects: Annotated[
        bool, typer.Option("--effects/--no-effects", help="Whether to fit a mean and effects of rows and columns.")
    ] = True,
    lower: Annotated[float | None, typer.Option(help="Lower bound on every entry.")] = None,
    upper: Annotated[float | None, typer.Option(help="Upper bound on every entry.")] = None,
    weighting: Annotated[
        float | None, typer.Option(help="Exponent of the weighted trace norm; 0 for the plain one. Found if not given.")
    ] = None,
    average: Annotated[
        int | None, typer.Option(min=2, help="Predict by the mean of this number of posterior draws, for example 100.")
    ] = None,
    implicit: Annotated[
        bool, typer.Option("--implicit", help="Values are counts, such as clicks, plays or purchases.")
    ] = False,
    alpha0: Annotated[
        float | None,
        typer.Option(help="With --implicit: weight of the zeros, for items not taken. Found if not given."),
    ] = None,
    confidence: Annotated[
        str | None, typer.Option(help="With --implicit: weight of a count, log (default), linear or ones.")
    ] = None,
    interval: o.Interval = None,
    held: Annotated[
        float,
        typer.Option(
            "--holdout", min=0.0, max=0.9, help="Fraction of the entries to hold out for testing; 0 for none."
        ),
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
    events: o.Events = False,
    checkpoint: o.Checkpoint = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Address of a Dask scheduler whose workers fit the model; DATA is prepared data or Parquet."),
    ] = None,
    tune: Annotated[bool, typer.Option("--tune", hidden=True)] = False,
    force: o.Force = False,
    json: o.Json = False,
) -> None:
    """Complete a matrix from some of its entries, and say how good the answer is.

    Rank, C and weighting are found by held-out entries; --rank, --C and --weighting fix them. The model that is written
    is fitted without the part of --holdout, on which its error is measured; --holdout 0 fits it to all entries.

    With --interval, intervals are tried on the held-out entries, and rslm predict --interval can use the model.

    With --implicit, entries are what people took, and everything else is a zero that counts a little: the held-out part
    is ranked. Repeated entries are summed, and the model is fitted to all entries in the end. A log of events has no
    values: its lines are counted. It is recognised by the names of its columns, such as user, item, timestamp; --events
    says so of any other table.

    Example: rslm complete ratings.csv --lower 1 --upper 5 --model ratings.rslm

    Example: rslm complete plays.csv --implicit --model plays.rslm
    """
    from rslm import ImplicitCompletion, MatrixCompletion
    from rslm.cli.cluster import complete_on_cluster, implicit_on_cluster
    from rslm.cli.completed import result, write_filled
    from rslm.cli.found import averaged, in_words
    from rslm.cli.held_out import accuracy, better_guess, interval_facts, rmse
    from rslm.cli.implicit import complete_implicit
    from rslm.cli.output import OF_ENTRIES, claim, done_before, end, remarks_on, screen, show
    from rslm.cli.progress import FitProgress
    from rslm.data import holdout, read_source
    from rslm.estimators.choices import as_loss
    from rslm.estimators.completion.bounds import cost_in_words
    from rslm.estimators.completion.completion import USUAL_RANK
    from rslm.report import completion_report, write_report

    console = screen(json)
    if tune:
        raise ValueError("--tune is the default now; leave it out. --rank, --C and --weighting fix single settings")
    claim(force, model, fill, report, read=[data], checkpoint=checkpoint)
    before = done_before(console, checkpoint)
    shared: dict[str, Any] = {"loss": loss, "effects": AUTO if effects else None}
    shared |= {"weighting": AUTO if weighting is None else weighting, "random_state": seed, "max_time": max_time}
    shared["bounds"] = None if lower is None and upper is None else (lower, upper)
    if not implicit and (alpha0 is not None or confidence is not None):
        raise ValueError("--alpha0 and --confidence need --implicit")
    if implicit:
        others: dict[str, Any] = {"--lower": lower, "--upper": upper, "--fill": fill}
        others |= {"--loss": None if loss == "square" else loss, "--no-effects": None if effects else True}
        others |= {"--interval": interval, "--average": average}
        if given := [name for name, value in others.items() if value is not None]:
            raise ValueError(f"{', '.join(given)} cannot be combined with --implicit; leave one of them out")
    if scheduler is not None:
        here: dict[str, Any] = {"--fill": fill, "--report": report, "--rows": rows, "--cols": cols, "--values": values}
        here |= {"--events": events, "--interval": interval, "--average": average}
        if given := [name for name, value in here.items() if value]:
            raise ValueError(
                f"{', '.join(given)} cannot be combined with --scheduler, as only the workers have the entries; leave "
                f"{'it' if len(given) == 1 else 'them'} out"
            )
        if implicit:
            numbers: tuple[Any, ...] = tuple(AUTO if n is None else n for n in (rank, c, alpha0, weighting))
            there = ImplicitCompletion(*numbers, confidence=confidence or "log", random_state=seed, max_time=max_time)
            implicit_on_cluster(console, there, data, scheduler, held, model, checkpoint, before, json, weight)
            return
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
            duplicates="sum" if implicit and duplicates == "error" else duplicates,  # type: ignore[arg-type]
            events=events,
        )
    matrix = source.data
    console.print(f"{data}: {source.how}")
    console.print(f"{matrix.shape[0]:,} × {matrix.shape[1]:,}, {len(matrix):,} entries ({100 * matrix.density:.3g} %)")
    if source.events and not implicit:
        console.print("Note: these are counts of events, for which --implicit is made.")
    if implicit:
        if matrix.shape[1] == 2 and matrix.density == 1.0 and layout is None and not source.events:
            raise ValueError(
                f"{data} was read as a matrix with two columns; if every line is one event, a row and a column, add "
                "--events; if it is a matrix of two items, add --layout dense"
            )
        limit = AUTO if rank is None else rank
        asked = limit, AUTO if c is None else c, AUTO if alpha0 is None else alpha0, shared["weighting"]
        chosen = ImplicitCompletion(*asked, confidence=confidence or "log", random_state=seed, max_time=max_time)
        written: dict[str, Any] = {"model": model, "report": report, "checkpoint": checkpoint, "before": before}
        complete_implicit(console, chosen, source, held, title=Path(data).name, **written, json=json)
        return
    if line := cost_in_words(shared["bounds"], matrix.shape, rank or USUAL_RANK):
        console.print(line)
    train, test = holdout(matrix, held, seed) if held > 0 and len(matrix) > FEW else (matrix, None)
    limit = AUTO if rank is None else rank
    estimator = MatrixCompletion(limit, AUTO if c is None else c, average=average, **shared)
    name, measure = ("held-out accuracy", accuracy) if as_loss(loss).binary else ("held-out RMSE", rmse)
    error = (lambda fitted: measure(fitted, test)) if test is not None else None
    began = time.perf_counter()
    with remarks_on(console, OF_ENTRIES):
        estimator.set_callbacks(FitProgress(console, error, name, before)).fit(train, checkpoint=checkpoint)
    seconds = time.perf_counter() - began
    facts = result(estimator, train, test, seconds) | interval_facts(estimator, test, interval)
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
        show(console, "Result", facts if json else {k: v for k, v in facts.items() if k != "search"}, json)
    for line in in_words(estimator):
        console.print(line)
    if line := averaged(estimator):
        console.print(line)
    if estimator.rank_ > 0:  # else nothing was asked of W that could be certified
        console.print(estimator.certificate_.verdict)
    if estimator.rank_ > 0 and (better := better_guess(facts)) is not None:
        hint = "Try another --loss" + (", or leave --rank and --C out" if rank or c else "")
        console.print(f"Note: {better} held-out entries better. {hint}.")
    end(console, estimator, checkpoint)
