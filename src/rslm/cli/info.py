"""`rslm info` and `rslm certify`: what a model is, and how good it is on some data."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from rslm import load
from rslm.cli import options as o
from rslm.cli.output import show
from rslm.cli.predict import completion
from rslm.data import read_source


def info(model: o.ModelFile, json: o.Json = False) -> None:
    """What a model is, and how its fit has ended.

    Example: rslm info ratings.rslm
    """
    console = Console(stderr=json)
    fitted = load(model)
    facts: dict[str, Any] = {"estimator": type(fitted).__name__}
    for name in ("row_factors_", "col_factors_", "coef_"):
        if hasattr(fitted, name):
            facts[name.rstrip("_")] = " × ".join(f"{n:,}" for n in getattr(fitted, name).shape)
    facts |= {
        name.rstrip("_"): getattr(fitted, name) for name in ("rank_", "outcome_", "n_iter_") if hasattr(fitted, name)
    }
    facts |= {k: str(v) if not isinstance(v, int | float | bool | None) else v for k, v in fitted.get_params().items()}
    show(console, str(model), facts, json)
    console.print(fitted.certificate_.verdict)


def certify(
    model: o.ModelFile,
    data: o.DataFile,
    rows: o.Rows = None,
    cols: o.Cols = None,
    values: o.Values = None,
    delimiter: o.Delimiter = None,
    header: o.Header = None,
    layout: o.TableLayout = None,
    duplicates: o.Duplicates = "error",
    json: o.Json = False,
) -> None:
    """How far the subspace of a model is from the optimum on these data.

    Example: rslm certify ratings.rslm ratings.csv
    """
    console = Console(stderr=json)
    fitted = completion(model)
    source = read_source(
        data,
        delimiter=delimiter,
        header=header,
        layout=layout,
        rows=rows,
        cols=cols,
        values=values,
        duplicates=duplicates,  # type: ignore[arg-type]
    )
    found = fitted.certify(source.data)
    facts = {"primal": found.primal, "dual": found.dual, "gap": found.gap, "relative_gap": found.relative_gap}
    show(console, "Certificate", facts, json)
    console.print(found.verdict)
