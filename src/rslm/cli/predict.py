"""`rslm predict` and `rslm recommend`: predictions for pairs, and the columns with the largest ones for a row."""

from __future__ import annotations

import csv
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from rslm.cli import options as o


def predict(
    model: o.ModelFile,
    pairs: Annotated[
        str, typer.Argument(help="A table with a column of rows and one of columns; - for standard input.")
    ],
    out: Annotated[Path | None, typer.Option(help="Write CSV here; standard output if not given.")] = None,
    interval: o.Interval = None,
    spread: Annotated[
        bool,
        typer.Option(
            "--spread", help="Add the standard deviation of the draws; the model must be fitted with --average."
        ),
    ] = False,
    rows: o.Rows = None,
    cols: o.Cols = None,
    delimiter: o.Delimiter = None,
    header: o.Header = None,
    encoding: o.Encoding = None,
    force: o.Force = False,
) -> None:
    """Predict entries of a matrix: one pair of a row and a column per line.

    A row or column that the model does not know has no effect and no factors: it is predicted by the mean and by the
    effect of the other side, without interval or spread. With --interval, lower and upper end of an interval follow
    every prediction; with --spread, the standard deviation of the draws of an average.

    The two columns of PAIRS are found by their names, such as user and item, or else are the first two.

    Example: rslm predict ratings.rslm wanted.csv --interval 0.9 --out predicted.csv
    """
    import numpy as np

    from rslm.cli.lookup import counted, intervals, known_ids, known_pairs, of_known, recommender, spread_of
    from rslm.cli.output import claim, screen
    from rslm.data.files import read_pairs
    from rslm.data.files.names import names_ids, pair_by_name
    from rslm.data.numbers import plain_number
    from rslm.storage.atomic import atomic_text

    claim(force, out, read=[model, pairs])
    fitted = recommender(model)
    first, second, how, taken = read_pairs(
        pairs, delimiter=delimiter, header=header, encoding=encoding, rows=rows, cols=cols
    )
    pair = str(first[0]), str(second[0])
    if header is None and len(first) > 1 and names_ids(*pair) and not known_ids(fitted, first[0], second[0]):
        first, second = first[1:], second[1:]  # a header above ids that are words, so it was not detected
        how, taken = how.replace("without a header", "with a header"), pair
        if rows is None and cols is None and pair[0] != pair[1] and pair_by_name(list(pair)) != pair:
            first, second, taken = second, first, (pair[1], pair[0])
    of_line = f"one pair a line: {taken[0]} × {taken[1]}"
    screen(out is None).print(f"{pairs}: {how}, {of_line}")  # standard output is for predictions only
    rows_of, cols_of = len(fitted.row_factors_), len(fitted.col_factors_)
    asked = counted(fitted.row_ids_, first, rows_of, pairs), counted(fitted.col_ids_, second, cols_of, pairs)
    known = known_pairs(fitted, *asked, pairs)
    if not known.all():
        at = int(known.argmin())
        screen(out is None).print(
            f"{len(known) - int(known.sum())} of {len(known)} pairs have a row or a column that the model does not "
            f"know, first {plain_number(first[at])} × {plain_number(second[at])}; they are predicted by the mean and "
            "by what is known of the other side."
        )
    found = {"prediction": fitted.predict(*asked, unseen="mean")}
    if interval is not None:
        ends = intervals(fitted, asked[0][known], asked[1][known], interval)
        found["lower"], found["upper"] = (of_known(end, known) for end in ends)
    if spread:
        found["spread"] = of_known(spread_of(fitted, asked[0][known], asked[1][known]), known)
    with nullcontext(sys.stdout) if out is None else atomic_text(out) as file:
        writer = csv.writer(file)
        writer.writerow(["row", "column", *found])
        writer.writerows(
            (plain_number(a), plain_number(b), *("" if np.isnan(w) else f"{w:.6g}" for w in numbers))
            for a, b, *numbers in zip(first, second, *found.values(), strict=True)
        )


def recommend(
    model: o.ModelFile,
    whom: Annotated[str, typer.Option("--for", help="The row, by its id, or its number from 1.")],
    top: Annotated[int, typer.Option(min=1, help="Number of results to list.")] = 10,
    known: Annotated[
        str | None,
        typer.Option(help="A file of entries to leave out, instead of the entries that the model was fitted to."),
    ] = None,
    similar: Annotated[bool, typer.Option("--similar", help="List the rows most similar to this one instead.")] = False,
    rows: o.Rows = None,
    cols: o.Cols = None,
    values: o.Values = None,
    delimiter: o.Delimiter = None,
    header: o.Header = None,
    encoding: o.Encoding = None,
    layout: o.TableLayout = None,
    variable: o.Variable = None,
    events: o.Events = False,
    json: o.Json = False,
) -> None:
    """List the columns with the largest predictions for a row.

    Entries that the model was fitted to are left out. Example: rslm recommend ratings.rslm --for 42
    """
    from rich.table import Table

    from rslm.cli.lookup import known_of_row, most_similar, position, recommender
    from rslm.cli.output import as_json, screen
    from rslm.data import read_source
    from rslm.data.numbers import plain_number

    reading: dict[str, Any] = {
        "delimiter": delimiter,
        "header": header,
        "encoding": encoding,
        "layout": layout,
        "rows": rows,
        "cols": cols,
        "values": values,
        "variable": variable,
        "events": events or None,
    }
    given = [f"--{name}" for name, value in reading.items() if value is not None]
    if (known is None or similar) and given:
        raise ValueError(f"{', '.join(given)}: only for reading the file of --known, which was not given; leave it out")
    if known is not None and similar:
        raise ValueError("--known leaves out columns, and --similar lists rows; give one of them")
    fitted = recommender(model)
    at = position(fitted.row_ids_, whom, len(fitted.row_factors_))
    if similar:
        if not fitted.row_factors_.any():
            raise ValueError("the model has rank 0: its rows differ by effects alone, and have no similarity")
        ids, scores = most_similar(fitted, at, top)
    else:
        row = [at] if fitted.row_ids_ is None else fitted.row_ids_[[at]]
        seen = None
        if known is not None:
            source = read_source(known, duplicates="last", **reading | {"events": events})
            screen(json).print(f"{known}: {source.how}")
            seen = known_of_row(fitted, at, source.data, known)
        elif fitted.known_ is None:
            screen(json).print(
                "Note: the model does not hold the entries it was fitted to, so that they are listed with the others; "
                "--known DATA leaves them out."
            )
        (ids,), (scores,) = fitted.recommend(row, top, seen)
    numbered = (fitted.row_ids_ if similar else fitted.col_ids_) is None  # positions, shown from 1
    found = [(plain_number(k + 1 if numbered else k), float(s)) for k, s in zip(ids, scores, strict=True)]
    if json:
        print(as_json([{"id": name, "score": value} for name, value in found]))
        return
    if not found:
        screen().print(f"Nothing is left to recommend for {whom}: all of its entries are known.")
        return
    table = Table("rank", "id", "similarity" if similar else "prediction", title=f"For {whom}")
    for place, (name, value) in enumerate(found, 1):
        table.add_row(str(place), str(name), f"{value:.4g}")
    screen().print(table)
