"""Panels as tables: the columns that a command names, the event study, and all effects."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import polars as pl
from rich.table import Table

from rslm import PanelCompletion
from rslm.data.files.table import NamedColumns


def long_table(read: NamedColumns, names: dict[str, str], covariates: list[str] | None) -> Any:
    """The named columns with their types: periods are numbers if all of them are whole."""
    roles = [*names.values(), *(covariates or [])]
    twice = [name for name in roles if roles.count(name) > 1]
    if twice:
        raise ValueError(f"{read.name}: column {twice[0]!r} cannot have two roles; name different columns")
    columns: dict[str, Any] = {names["unit"]: read.ids(names["unit"]), names["time"]: _periods(read, names["time"])}
    columns[names["treated"]] = _flags(read, names["treated"])
    for name in (names["outcome"], *(covariates or [])):
        columns[name] = read.numbers(name)[1]
    return pl.DataFrame(columns)


def _flags(read: NamedColumns, name: str) -> Any:
    """Also the texts true and false, which pandas, Polars and R write."""
    texts = read.frame[name].cast(pl.String).str.strip_chars().str.to_lowercase()
    return (texts == "true").to_numpy() if texts.is_in(["true", "false"]).all() else read.numbers(name)[1]


def _periods(read: NamedColumns, name: str) -> Any:
    ids = read.ids(name)
    try:
        numbers = ids.astype(np.float64)
    except ValueError:
        return ids
    return numbers.astype(np.int64) if (numbers == np.round(numbers)).all() else numbers


def event_table(model: PanelCompletion) -> Table:
    """Effects by the time since adoption."""
    study = model.event_study_
    table = Table("periods since adoption", "effect", "lower", "upper", "outcomes", title="Event study")
    for row in zip(*(study[name] for name in ("relative_time", "effect", "lower", "upper", "n")), strict=True):
        table.add_row(*(f"{value:.4g}" for value in row))
    return table


def write_effects(file: Any, model: PanelCompletion) -> None:
    """One line for each treated outcome: unit, period, outcome, counterfactual and effect."""
    panel = model._panel
    units = np.arange(panel.shape[0]) if panel.units is None else panel.units
    periods = np.arange(panel.shape[1]) if panel.periods is None else panel.periods
    writer = csv.writer(file)
    writer.writerow(["unit", "period", "outcome", "counterfactual", "effect"])
    for i, t in np.argwhere(panel.affected):
        numbers = panel.outcomes[i, t], model.counterfactual_[i, t], model.effect_[i, t]
        writer.writerow([units[i], periods[t], *(f"{value:.6g}" for value in numbers)])
