"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

READING, WRITING = "How to read the data", "What to write"

DataFile = Annotated[
    str,
    typer.Argument(
        help="CSV, TSV, '::'-separated, Parquet, MatrixMarket, npy, npz, mat, or a folder of prepared data; - is stdin."
    ),
]
ModelFile = Annotated[Path, typer.Argument(help="A model that rslm has written.")]
Rows = Annotated[str | None, typer.Option(help="Column of row ids: name or number.", rich_help_panel=READING)]
Cols = Annotated[str | None, typer.Option(help="Column of column ids.", rich_help_panel=READING)]
Values = Annotated[str | None, typer.Option(help="Column of values.", rich_help_panel=READING)]
Weight = Annotated[
    str | None,
    typer.Option(
        "--weight",
        help="Column of weights: an entry of weight 2 counts twice, 0 leaves it out. Never guessed.",
        rich_help_panel=READING,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(help="Delimiter of a text table, such as ; or tab; guessed if not given.", rich_help_panel=READING),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        help="Encoding of a text table, such as latin-1 or utf-16; guessed if not given.", rich_help_panel=READING
    ),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first line names the columns.", rich_help_panel=READING),
]
TableLayout = Annotated[
    str | None, typer.Option("--layout", help="triplets: one entry a line; dense: a matrix.", rich_help_panel=READING)
]
Variable = Annotated[
    str | None, typer.Option(help="Name of the matrix, if a MATLAB or npz file has several.", rich_help_panel=READING)
]
Duplicates = Annotated[
    str, typer.Option(help="How to treat repeated entries: error, sum, mean or last.", rich_help_panel=READING)
]
Events = Annotated[
    bool,
    typer.Option(
        "--events",
        help="Every line is one event, a row and a column: events are counted, other columns ignored.",
        rich_help_panel=READING,
    ),
]
MaxTime = Annotated[
    float | None, typer.Option("--max-time", help="Seconds after which the fit stops; the best result so far is kept.")
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="Save the progress of the fit here from time to time; the same command resumes from it.",
        rich_help_panel=WRITING,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.", rich_help_panel=WRITING)]
Interval = Annotated[
    float | None,
    typer.Option(
        "--interval",
        min=0.0,
        max=1.0,
        help="Coverage of intervals, such as 0.9: the fraction of new observations that they contain.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON, and nothing else.", rich_help_panel=WRITING)
]
