"""`rslm info` and `rslm certify`: the facts about a model, and its certificate on given data."""

from __future__ import annotations

from typing import Any

from rslm.cli import options as o


def info(model: o.ModelFile, json: o.Json = False) -> None:
    """Show what a model is, and how its fit ended.

    Example: rslm info ratings.rslm
    """
    from rslm import load
    from rslm.cli.found import averaged, in_words, search_facts, verdict
    from rslm.cli.output import screen, show

    console = screen(json)
    fitted = load(model)
    facts: dict[str, Any] = {"estimator": type(fitted).__name__}
    for name in ("row_factors_", "col_factors_", "coef_"):
        if hasattr(fitted, name):
            facts[name.rstrip("_")] = " × ".join(f"{n:,}" for n in getattr(fitted, name).shape)
    names = ("rank_", "C_", "alpha0_", "weighting_", "intercept_", "att_", "outcome_", "n_iter_")
    found = {name.rstrip("_"): getattr(fitted, name) for name in names if hasattr(fitted, name)}
    facts |= {name: value for name, value in found.items() if isinstance(value, int | float | str)}
    if getattr(fitted, "held_out_", None) is not None:
        facts |= search_facts(fitted)["search"]
    # Parameters as they were given. Where the fit has found a value of the same name, the given one is called given_….
    params = {"limit_on_the_rank" if k == "rank" else k: v for k, v in fitted.get_params().items()}
    params = {f"given_{k}" if k in facts else k: v for k, v in params.items()}
    facts |= {k: v if isinstance(v, int | float | bool | None) else str(v) for k, v in params.items()}
    show(console, str(model), facts, json)
    if getattr(fitted, "held_out_", None) is not None:
        for line in in_words(fitted):
            console.print(line)
    if (average := averaged(fitted)) is not None:
        console.print(average)
    console.print(verdict(fitted))


def certify(
    model: o.ModelFile,
    data: o.DataFile,
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
    """Bound how far the subspace of a model is from the optimum on these data.

    Example: rslm certify ratings.rslm ratings.csv
    """
    from rslm.cli.lookup import predicts_values, recommender
    from rslm.cli.output import screen, show
    from rslm.data import read_source

    console = screen(json)
    fitted = recommender(model)
    counts = not predicts_values(fitted)
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
        duplicates="sum" if counts and duplicates == "error" else duplicates,  # type: ignore[arg-type]
        events=events,
    )
    console.print(f"{data}: {source.how}")
    matrix = source.data
    if fitted.col_ids_ is not None and matrix.col_ids is not None:
        matrix = matrix.with_columns(fitted.col_ids_)
    found = fitted.certify(matrix)
    facts = {"primal": found.primal, "dual": found.dual, "gap": found.gap, "relative_gap": found.relative_gap}
    show(console, "Certificate", facts, json)
    console.print(
        f"On these data the best matrix in the model's subspace has an objective of {found.primal:.4g}; no matrix of "
        f"any rank has less than {found.dual:.4g}."
    )
