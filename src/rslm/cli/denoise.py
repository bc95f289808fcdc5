"""`rslm denoise`: the signal in a series, its oscillations, and the next values."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from rslm.cli import options as o

SPIKE = 5.0  # outlier score above which a sample is counted as a spike


def denoise(
    series: Annotated[str, typer.Argument(help="A table with a column of samples; - for standard input.")],
    column: Annotated[str | None, typer.Option(help="Name or number; the last column of numbers if not given.")] = None,
    imaginary: Annotated[
        str | None, typer.Option(help="The column of imaginary parts, for complex samples such as I/Q or NMR.")
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", help="Column of an input that drives the series: a linear system is identified. May be repeated."
        ),
    ] = None,
    times: Annotated[
        str | None,
        typer.Option("--time", help="The column of times, to check that they are evenly spaced and to fill gaps."),
    ] = None,
    forecast: Annotated[int, typer.Option(min=0, help="Number of values to forecast.")] = 0,
    interval: Annotated[
        float | None,
        typer.Option(
            help="The fraction of the next samples that intervals should cover, such as 0.9; with --forecast."
        ),
    ] = None,
    rank: Annotated[int | None, typer.Option(min=1, help="Maximum order; found from the data if not given.")] = None,
    loss: Annotated[
        str, typer.Option(help="square; huber or absolute for series with spikes; huber:0.5 with a width.")
    ] = "square",
    log: Annotated[
        bool, typer.Option("--log", help="Fit the logarithm, for oscillations that grow with the level.")
    ] = False,
    max_time: o.MaxTime = None,
    out: Annotated[Path | None, typer.Option(help="Write signal and forecast here, as CSV.")] = None,
    components: Annotated[
        Path | None, typer.Option(help="Write trend, decay and oscillations here, as CSV.", rich_help_panel=o.WRITING)
    ] = None,
    model: Annotated[Path | None, typer.Option(help="Write the model here.", rich_help_panel=o.WRITING)] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a report here, as HTML.", rich_help_panel=o.WRITING)
    ] = None,
    delimiter: o.Delimiter = None,
    header: o.Header = None,
    encoding: o.Encoding = None,
    force: o.Force = False,
    json: o.Json = False,
) -> None:
    """Find the signal in a noisy series, fill its gaps, and forecast its next values.

    Example: rslm denoise passengers.csv --log --forecast 24 --interval 0.9 --out next.csv

    With --loss huber, spikes in the series do not spoil the signal. With --input, the series is the output of a linear
    system, which is found from input and output.
    """
    import numpy as np

    from rslm import HankelModel
    from rslm.cli.denoised import oscillations, read_samples, write_components, write_series
    from rslm.cli.found import loss_used
    from rslm.cli.output import claim, end, remarks_on, screen, show
    from rslm.cli.progress import FitProgress
    from rslm.data.files import read_table
    from rslm.evaluate.intervals import check_coverage
    from rslm.report import series_report, write_report
    from rslm.storage.atomic import atomic_text

    console = screen(json)
    if interval is not None:
        check_coverage(interval)
        if not forecast:
            raise ValueError(f"--interval {interval:g} needs --forecast, the number of samples to forecast")
    for name, given in {"--input": bool(inputs), "--imaginary": imaginary is not None}.items():
        for other, asked in {"--forecast": forecast > 0, "--log": log, "--report": report is not None}.items():
            if given and asked and not (name == "--imaginary" and other == "--forecast" and interval is None):
                raise ValueError(f"{other} cannot be combined with {name}; leave one of them out")
    if inputs and components is not None:
        raise ValueError("--components cannot be combined with --input: a system with inputs has no components")
    claim(force, out, components, model, report, read=[series])
    table = read_table(series, delimiter=delimiter, header=header, encoding=encoding)
    read = read_samples(table, column, imaginary, inputs or [], times)
    y = read.samples
    console.print(
        f"{series}: {table.how}; samples from {read.name!r}, {len(y):,} of them, {int(np.isnan(y).sum())} missing"
        + read.remark
    )
    if log and not (y[~np.isnan(y)] > 0).all():
        raise ValueError(f"{series}: --log needs positive samples; the smallest is {np.nanmin(y):g}")
    began = time.perf_counter()
    fitted = HankelModel("auto" if rank is None else rank, loss=loss, max_time=max_time)
    with remarks_on(console):
        fitted.set_callbacks(FitProgress(console)).fit(np.log(y) if log else y, u=read.inputs)
    facts: dict[str, Any] = {"samples": len(y), "order": fitted.rank_, "noise": float(fitted.noise_)}
    if any(len(phi) for phi in fitted.autoregression_):
        facts["autoregression of the noise"] = ", ".join(f"{c:.3g}" for c in fitted.autoregression_[0])
    if loss != "square":
        scores = fitted.outlier_scores_
        facts |= {"loss": loss_used(fitted), "spikes": int((scores > SPIKE).sum())}
    facts["seconds"] = time.perf_counter() - began
    back = np.exp if log else np.asarray
    ends = [] if interval is None else fitted.predict_interval(forecast, interval)
    ahead = [back(part) for part in (fitted.forecast(forecast), *ends)] if forecast else []
    if out is not None:
        with atomic_text(out) as file:
            write_series(file, y, back(fitted.signal_), ahead)
        facts["written"] = str(out)
    if components is not None:
        with atomic_text(components) as file:
            write_components(file, fitted.components_, len(y))
        facts["components"] = str(components)
    if model is not None:
        fitted.save(model)
        facts["model"] = str(model)
    if report is not None:
        page = series_report(fitted, y, forecast, interval, title=Path(series).name, how=table.how, log=log)
        write_report(page, report)
        facts["report"] = str(report)
    if json and ahead:
        facts |= {name: part.tolist() for name, part in zip(("forecast", "lower", "upper"), ahead, strict=False)}
    show(console, "Result", facts, json)
    if not json:
        console.print(oscillations(fitted, len(y)))
        if ahead and out is None:
            with nullcontext(sys.stdout) as file:
                write_series(file, y[:0], y[:0], ahead, len(y))
        console.print(fitted.verdict_)
    end(console, fitted)
