"""`rslm panel`: the effect of a treatment, from a long table of outcomes."""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import Annotated, Any

import typer

from rslm.cli import options as o


def panel(
    table: Annotated[str, typer.Argument(help="One row for each unit and period; - for standard input.")],
    unit: Annotated[str, typer.Option(help="The column of units: name or number.")],
    time: Annotated[str, typer.Option(help="The column of periods.")],
    outcome: Annotated[str, typer.Option(help="The column of outcomes; empty cells are missing.")],
    treated: Annotated[str, typer.Option(help="The column that is 1 where a unit is treated, else 0.")],
    covariates: Annotated[str | None, typer.Option(help="Columns of covariates, separated by commas.")] = None,
    c: Annotated[
        float | None, typer.Option("--C", help="Weight of the loss: a larger C fits more closely. Found if not given.")
    ] = None,
    rank: Annotated[int | None, typer.Option(min=0, help="Number of factors; found if not given.")] = None,
    debias: Annotated[bool, typer.Option("--debias/--shrunk", help="Fit factors again without the trace norm.")] = True,
    inference: Annotated[str, typer.Option(help="bootstrap, jackknife, placebo or none.")] = "bootstrap",
    refits: Annotated[int, typer.Option(min=2, help="Number of refits for standard errors.")] = 200,
    level: Annotated[float, typer.Option(help="Probability that an interval covers the effect.")] = 0.95,
    max_time: o.MaxTime = None,
    out: Annotated[Path | None, typer.Option(help="Write all effects here, as CSV.", rich_help_panel=o.WRITING)] = None,
    model: Annotated[Path | None, typer.Option(help="Write the model here.", rich_help_panel=o.WRITING)] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a report here, as HTML.", rich_help_panel=o.WRITING)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of held-out blocks and of refits.")] = 0,
    delimiter: o.Delimiter = None,
    header: o.Header = None,
    encoding: o.Encoding = None,
    force: o.Force = False,
    json: o.Json = False,
) -> None:
    """Estimate the effect of a treatment on those who have it, by completing the panel as if there were none.

    Example: rslm panel smoking.csv --unit state --time year --outcome packs --treated law
    """
    from rslm import PanelCompletion
    from rslm.cli.found import in_words as found_in_words
    from rslm.cli.output import claim, end, remarks_on, screen, show
    from rslm.cli.panel_table import event_table, long_table, write_effects
    from rslm.cli.progress import FitProgress
    from rslm.data.files import read_table
    from rslm.report import panel_report, write_report
    from rslm.report.panel_report import in_words
    from rslm.storage.atomic import atomic_text

    console = screen(json)
    claim(force, out, model, report, read=[table])
    read = read_table(table, delimiter=delimiter, header=header, encoding=encoding)
    names = {"unit": read.column(unit), "time": read.column(time), "outcome": read.column(outcome)}
    names |= {"treated": read.column(treated)}
    added = [read.column(name) for name in covariates.split(",")] if covariates else None
    console.print(f"{table}: {read.how}")
    fitted = PanelCompletion(
        "auto" if rank is None else rank,
        "auto" if c is None else c,
        debias=debias,
        inference=None if inference == "none" else inference,
        n_refits=refits,
        level=level,
        max_time=max_time,
        random_state=seed,
    )
    began = clock.perf_counter()
    with remarks_on(console):
        fitted.set_callbacks(FitProgress(console))
        fitted.fit(long_table(read, names, added), **names, covariates=added)
    low, high = fitted.att_interval_
    n, T = fitted.effect_.shape
    facts: dict[str, Any] = {"units": n, "periods": T, "effect": fitted.att_, "lower": low, "upper": high}
    facts |= {"standard_error": fitted.standard_error_, "p_value": fitted.p_value_, "factors": fitted.rank_}
    facts |= {"C": fitted.C_, "relative_gap": float(fitted.certificate_.relative_gap), "outcome": fitted.outcome_}
    facts["seconds"] = clock.perf_counter() - began
    if out is not None:
        with atomic_text(out) as file:
            write_effects(file, fitted)
        facts["written"] = str(out)
    if model is not None:
        fitted.save(model)
        facts["model"] = str(model)
    if report is not None:
        write_report(panel_report(fitted, title=Path(table).name, how=read.how), report)
        facts["report"] = str(report)
    if json:
        facts["event_study"] = {name: column.tolist() for name, column in fitted.event_study_.items()}
        facts["before_adoption"] = fitted.pretrend_
    show(console, "Result", facts, json)
    if not json:
        console.print(event_table(fitted))
        for line in found_in_words(fitted):
            console.print(line)
        if fitted.pretrend_ is not None:
            console.print(in_words(fitted.pretrend_))
        console.print(fitted.certificate_.verdict)
    end(console, fitted)
