"""Panels as users have them: arrays, tables with a row per unit, and long tables with a row per unit and period."""

from __future__ import annotations

from typing import Any

import numpy as np

from rslm.data.labels import as_ids, number_ids, show_id
from rslm.estimators.panel.panel import Panel
from rslm.estimators.panel.periods import are_dates, check_regular, number_periods
from rslm.estimators.panel.two_way import Flags, TwoWay
from rslm.estimators.warn import warn_caller
from rslm.runtime.types import Floats

FOR_LONG = "For a long table, give unit=, time=, outcome= and treated= as names of its columns"
NOTHING = 1e-9  # of a covariate's size: what rounding leaves of one that unit and period effects explain


def panel_of(
    outcomes: Any, treated: Any, *, unit: Any = None, time: Any = None, outcome: Any = None, covariates: Any = None
) -> Panel:
    """The panel that was given, checked."""
    names = {"unit": unit, "time": time, "outcome": outcome}
    if all(name is None for name in names.values()):
        return _determined(_wide(outcomes, treated, covariates).checked(), None)
    missing = [name for name, value in names.items() if value is None]
    if missing:
        raise ValueError(
            f"a long table needs the names of its columns unit, time, outcome and treated; {missing[0]} is missing"
        )
    return _determined(_long(outcomes, {**names, "treated": treated}, covariates).checked(), _listed(covariates))


def _determined(panel: Panel, names: list[Any] | None) -> Panel:
    """The panel; an error if the coefficient of a covariate is not determined."""
    cube = np.zeros((0, *panel.shape)) if panel.covariates is None else panel.covariates
    for k, x in enumerate(cube):
        x = np.where(panel.control, x, 0.0)[None]
        left = TwoWay(panel.control[None], cube[:k] if k else None).residual(x)
        if np.linalg.norm(left) <= NOTHING * np.linalg.norm(x):
            raise ValueError(
                f"covariate {k if names is None else repr(names[k])} is a sum of a number for each unit, a number for "
                "each period and earlier covariates wherever there is no treatment, so its coefficient is not "
                "determined; leave it out"
            )
    return panel


# ---- units × periods ------------------------------------------------------------------------------------------------


def _wide(outcomes: Any, treated: Any, covariates: Any) -> Panel:
    try:
        values = _numbers(outcomes, "outcomes")
    except ValueError as error:
        raise ValueError(f"{error}. {FOR_LONG}") from None
    if values.ndim != 2:
        raise ValueError(f"outcomes must have two dimensions, units × periods; got shape {values.shape}. {FOR_LONG}")
    units = _ids(outcomes.index) if hasattr(outcomes, "index") and hasattr(outcomes, "columns") else None
    periods = _ids(outcomes.columns) if hasattr(outcomes, "columns") else None
    if periods is not None:
        check_regular(periods, "columns of outcomes")
    if units is not None and periods is not None and are_dates(units) and not are_dates(periods):
        warn_caller(
            f"outcomes has dates in its index, such as {show_id(units, 0)}, but none in its columns, such as "
            f"{show_id(periods, 0)}; rows are taken for units, and columns for periods. If rows are periods, give "
            "outcomes.T and treated.T"
        )
    if treated is None or isinstance(treated, str):
        raise ValueError(
            f"treated must be a mask of the shape of outcomes, {values.shape}, True where a unit has the treatment; "
            f"got {treated!r}"
        )
    for name, ids in (("index", units), ("columns", periods)):
        other = getattr(treated, name, None) if hasattr(treated, "columns") else None
        if ids is not None and other is not None and list(other) != list(ids):
            raise ValueError(f"treated and outcomes must have the same {name} in the same order")
    mask = np.asarray(treated)
    if mask.shape != values.shape:
        raise ValueError(f"treated must have the shape of outcomes, {values.shape}; got {mask.shape}")
    panel = Panel(values, np.zeros(values.shape, dtype=np.bool_), units, periods)
    flags = _flags(mask, lambda at: f"{panel.unit(at[0])} in {panel.period(at[1])}")
    return Panel(values, flags, units, periods, _cube(covariates, values.shape))


def _cube(given: Any, shape: tuple[int, ...]) -> Floats | None:
    """Covariates as (k, units, periods)."""
    if given is None:
        return None
    cube = _numbers(given, "covariates")
    cube = cube[:, :, None] if cube.ndim == 2 else cube
    if cube.ndim != 3 or cube.shape[:2] != shape:
        raise ValueError(
            f"covariates must have the shape of outcomes, {shape}, and a third dimension with one number for each "
            f"covariate; got {cube.shape}"
        )
    wrong = np.argwhere(~np.isfinite(cube))
    if len(wrong):
        i, t, k = (int(at) for at in wrong[0])
        raise ValueError(f"covariates must be finite; covariates[{i}, {t}, {k}] is {cube[i, t, k]}. Fill missing ones")
    return np.ascontiguousarray(cube.transpose(2, 0, 1))


# ---- one row per unit and period ------------------------------------------------------------------------------------


def _long(table: Any, names: dict[str, Any], covariates: Any) -> Panel:
    roles = [*names.values(), *_listed(covariates)]
    twice = [name for name in roles if roles.count(name) > 1]
    if twice:
        raise ValueError(f"column {twice[0]!r} cannot have two roles; name different columns")
    units, of_unit = number_ids(_labels(table, names["unit"], "unit"), f"column {names['unit']!r}")
    periods, of_period = number_periods(_labels(table, names["time"], "time"), f"column {names['time']!r}")
    y = _numbers(_column(table, names["outcome"], "outcome"), f"column {names['outcome']!r}")
    given = np.asarray(_column(table, names["treated"], "treated"))
    at = of_unit.astype(np.int64) * len(periods) + of_period

    def place(row: Any) -> str:
        return f"unit {show_id(units, int(of_unit[row]))} in period {show_id(periods, int(of_period[row]))}"

    order = np.argsort(at, kind="stable")
    again = np.flatnonzero(at[order][1:] == at[order][:-1])
    if len(again):
        first, second = int(order[again[0]]), int(order[again[0] + 1])
        raise ValueError(
            f"{len(again)} row{'s repeat' if len(again) > 1 else ' repeats'} a unit and period: the first is "
            f"{place(second)}, in rows {first + 1} and {second + 1}. Keep one row of each"
        )
    check_regular(periods, f"column {names['time']!r}")
    shape = len(units), len(periods)
    values, flags, present = np.full(shape, np.nan), np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    values.ravel()[at], present.ravel()[at] = y, True
    flags.ravel()[at] = _flags(given, lambda row: place(row[0]))
    panel = Panel(values, flags, units, periods, _cube_of_columns(table, covariates, at, shape, place))
    _check_beginnings(panel, present)
    return panel


def _check_beginnings(panel: Panel, present: Flags) -> None:
    """Without a row just before the first treated one, nobody knows when the treatment began."""
    for i in np.flatnonzero(panel.first > 0):
        t = int(panel.first[i])
        if not present[i, t - 1] and present[i, :t].any():
            raise ValueError(
                f"{panel.unit(i)} has no row in {panel.period(t - 1)}, just before its first treated one in "
                f"{panel.period(t)}, so it is not known when its treatment began. Add that row, with an empty outcome "
                "if there is none"
            )


def _cube_of_columns(table: Any, names: Any, at: Any, shape: tuple[int, int], place: Any) -> Floats | None:
    if names is None:
        return None
    listed = _listed(names)
    cube = np.zeros((len(listed), *shape))  # entries without a row have no outcome either
    for k, name in enumerate(listed):
        x = _numbers(_column(table, name, "covariates"), f"column {name!r}")
        wrong = np.flatnonzero(~np.isfinite(x))
        if len(wrong):
            raise ValueError(f"covariate {name!r} of {place(wrong[0])} is {x[wrong[0]]}; fill it, or leave it out")
        cube[k].ravel()[at] = x
    return cube


def _listed(covariates: Any) -> list[Any]:
    return [] if covariates is None else [covariates] if isinstance(covariates, str) else list(covariates)


def _column(table: Any, name: Any, role: str) -> Any:
    columns = list(getattr(table, "columns", ()))
    if not columns:
        raise TypeError(f"a long table must be a DataFrame of pandas or Polars; got {type(table).__name__}")
    if name not in columns:
        raise ValueError(f"{role} must be the name of a column, one of {columns}; got {name!r}")
    return table[name].to_numpy()


def _labels(table: Any, name: Any, role: str) -> Any:
    ids = as_ids(_column(table, name, role), f"column {name!r}")
    if not len(ids):
        raise ValueError("the table has no rows")
    return ids


# ---- cells ----------------------------------------------------------------------------------------------------------


def _numbers(given: Any, what: str) -> Floats:
    try:
        found = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be numbers, NaN where missing; got {np.asarray(given).dtype}") from None
    return found


def _flags(given: Any, place: Any) -> Flags:
    """True and False, or 1 and 0."""
    if given.dtype == np.bool_:
        return np.array(given)
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"treated must be True or False, or 1 or 0; got {given.ravel()[0]!r} for one") from None
    wrong = np.argwhere((numbers != 0.0) & (numbers != 1.0))
    if len(wrong):
        raise ValueError(
            f"treated must be True or False, or 1 or 0; that of {place(wrong[0])} is {numbers[tuple(wrong[0])]}"
        )
    return np.asarray(numbers == 1.0)


def _ids(labels: Any) -> Any:
    return as_ids(np.asarray(labels), "ids")
