"""What the file of a panel holds, and how it is read."""

from __future__ import annotations

from typing import Any

import numpy as np

from rslm.data import parts
from rslm.estimators.panel.event_study import COLUMNS
from rslm.estimators.panel.panel import Panel
from rslm.estimators.persistence import ids_from_array, ids_to_array
from rslm.storage.container import Arrays, Facts

FACTS = ("rank_", "C_", "lambda_", "noise_", "standard_error_", "p_value_", "n_features_in_")
TREND = ("effect", "standard_error", "lower", "upper", "p_value", "bound")
PATH = ("C", "error")
EFFECTS = ("unit_effects_", "period_effects_", "coefficients_")


def arrays_of(model: Any) -> Arrays:
    panel: Panel = model._panel
    arrays: Arrays = {"outcomes": panel.outcomes, "treated": panel.treated, "counterfactual": model.counterfactual_}
    arrays |= {name: getattr(model, name) for name in EFFECTS}
    arrays |= {f"study_{name}": np.asarray(model.event_study_[name], dtype=np.float64) for name in COLUMNS}
    arrays |= {} if model.path_ is None else {f"path_{name}": model.path_[name] for name in PATH}
    return arrays | ids_to_array("unit", panel.units) | ids_to_array("period", panel.periods)


def facts_of(model: Any) -> Facts:
    return {"att_interval": list(model.att_interval_), "pretrend": model.pretrend_, "held_out": model.held_out_}


def read(model: Any, arrays: Arrays, facts: Facts) -> None:
    """Set what a file says of the panel and its effects."""
    outcomes = parts.floats(arrays, "outcomes", None, None, finite=False)
    n, T = outcomes.shape
    units, periods = ids_from_array("unit", arrays), ids_from_array("period", arrays)
    for name, ids, count in (("unit_ids", units, n), ("period_ids", periods, T)):
        if ids is not None and len(ids) != count:
            raise ValueError(name)
    model._panel = Panel(outcomes, parts.flags(arrays, "treated", n, T), units, periods)
    model.counterfactual_ = parts.floats(arrays, "counterfactual", n, T)
    for name, count in zip(EFFECTS, (n, T, None), strict=True):
        setattr(model, name, parts.floats(arrays, name, count))
    model.rank_, model.n_features_in_ = parts.whole(facts, "rank_", 0, min(n, T)), T
    for name in ("C_", "lambda_", "noise_", "standard_error_", "p_value_"):
        setattr(model, name, parts.any_number(facts, name))
    low, high = facts["att_interval"]
    model.att_interval_ = float(low), float(high)
    count = len(arrays["study_relative_time"])
    study: dict[str, Any] = {name: parts.floats(arrays, f"study_{name}", count, finite=False) for name in COLUMNS}
    model.event_study_ = study | {name: study[name].astype(np.int64) for name in ("relative_time", "n")}
    model.path_ = None
    if "path_C" in arrays:
        count = len(arrays["path_C"])
        model.path_ = {name: parts.floats(arrays, f"path_{name}", count) for name in PATH}
    trend, held = facts["pretrend"], facts["held_out"]
    model.pretrend_ = (
        None if trend is None else {name: parts.any_number(trend, name) for name in TREND} | {"n": trend["n"]}
    )
    model.held_out_ = None if held is None else {name: parts.any_number(held, name) for name in ("effects", "model")}
