"""`rslm evaluate`: how well a model predicts, or ranks, entries that it was not fitted to."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rslm.cli import options as o


def evaluate(
    model: o.ModelFile,
    test: o.DataFile,
    ranking: Annotated[
        bool,
        typer.Option("--ranking", help="Rank all columns for every row, and find the entries of TEST in the ranking."),
    ] = False,
    at: Annotated[
        list[int] | None, typer.Option(min=1, help="With --ranking: number of places that count. May be repeated.")
    ] = None,
    relevant_from: Annotated[
        float | None,
        typer.Option(help="With --ranking: smallest value of a relevant entry; all above 0 if not given."),
    ] = None,
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
    json: o.Json = False,
) -> None:
    """Evaluate a model on entries that it was not fitted to: errors of its predictions, or metrics of its rankings.

    Entries of rows and columns that the model does not know, and those that it was made from, are left out: all entries
    that rslm complete was given, including those that it held out. A model of what people took (rslm complete
    --implicit) is always measured by rankings, and repeated entries are summed for it.

    Example: rslm evaluate ratings.rslm test.csv --ranking --at 10 --at 100
    """
    from rslm.cli.held_out import error_facts, ranking_facts
    from rslm.cli.lookup import predicts_values, recommender
    from rslm.cli.output import screen, show
    from rslm.data import read_source
    from rslm.evaluate import align, unseen

    console = screen(json)
    fitted = recommender(model)
    implicit = not predicts_values(fitted)
    if not (ranking or implicit) and (at is not None or relevant_from is not None):
        given = "--at" if at is not None else "--relevant-from"
        raise ValueError(f"{given} is for rankings only; add --ranking")
    source = read_source(
        test,
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
    console.print(f"{test}: {source.how}")
    if source.events and not (events or ranking or implicit):
        raise ValueError(
            f"{test} has no values, only rows and columns, but the model predicts values; name their column with "
            "--values, measure rankings with --ranking, or, for a model of counts of events, add --events"
        )
    known_to_model = align(source.data, fitted)
    held_out = known_to_model if fitted.known_ is None else unseen(known_to_model, fitted.known_)
    unknown, seen = len(source.data) - len(known_to_model), len(known_to_model) - len(held_out)
    if not len(held_out):
        raise ValueError(
            f"{test} has nothing to evaluate on: of its {len(source.data)} entries, {unknown} are of rows or columns "
            f"that the model does not know, and {seen} are among the entries that it was made from; give other entries"
        )
    for count, why in ((unknown, "of rows or columns that the model does not know"), (seen, "that it was made from")):
        if count:
            console.print(f"Left out: {count} of {len(source.data)} entries, {why}.")
    facts: dict[str, Any] = {"entries": len(held_out)}
    if predicts_values(fitted) and not ranking:
        show(console, "Errors", facts | error_facts(fitted, held_out), json)
        return
    if fitted.known_ is None:
        console.print("Note: the model does not hold the entries it was fitted to; they are ranked with the others.")
    show(console, "Ranking", facts | ranking_facts(fitted, held_out, at, relevant_from), json)
