"""`rslm prepare`: convert a table that may exceed memory to a folder that all other commands read."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from rslm.cli import options as o


def prepare(
    data: Annotated[
        Path, typer.Argument(help="CSV, TSV, '::'-separated, also compressed, or Parquet: one entry a line.")
    ],
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    memory: Annotated[
        str, typer.Option(help="Maximum memory for sorting, such as 500MB; the rest goes to disk.")
    ] = "1GB",
    rows: o.Rows = None,
    cols: o.Cols = None,
    values: o.Values = None,
    weight: o.Weight = None,
    delimiter: o.Delimiter = None,
    header: o.Header = None,
    encoding: o.Encoding = None,
    duplicates: o.Duplicates = "error",
    events: o.Events = False,
    force: o.Force = False,
    json: o.Json = False,
) -> None:
    """Write a table as a folder that can be fitted without reading all of it into memory.

    Example: rslm prepare ratings.csv ratings/ and then rslm complete ratings/
    """
    from rslm.cli.output import screen, show
    from rslm.data.prepared.write import prepare as write_prepared

    console = screen(json)
    began = time.perf_counter()
    with console.status("Preparing …") as status:
        manifest = write_prepared(
            data,
            out,
            delimiter=delimiter,
            header=header,
            encoding=encoding,
            rows=rows,
            cols=cols,
            values=values,
            weights=weight,
            duplicates=duplicates,  # type: ignore[arg-type]
            events=events,
            memory=memory,
            force=force,
            progress=lambda what: status.update(f"Preparing: {what} …"),
        )
    console.print(f"{data}: {manifest.how}")
    facts: dict[str, Any] = {"rows": manifest.shape[0], "columns": manifest.shape[1], "entries": manifest.entries}
    facts |= {"shards": len(manifest.shards), "seconds": time.perf_counter() - began, "folder": str(out)}
    show(console, "Prepared", facts, json)
