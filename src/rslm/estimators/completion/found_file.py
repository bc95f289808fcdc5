"""What a search has found, as parts of the file of a completion."""

from __future__ import annotations

from typing import Any

from rslm.data import parts
from rslm.storage.container import Arrays, Facts

ERRORS = ("mean", "effects", "model")


def written(model: Any) -> tuple[Arrays, Facts]:
    """The path and the held-out errors of a model, None where nothing was searched, and the units of the errors."""
    path, held_out = getattr(model, "path_", None), getattr(model, "held_out_", None)
    facts = {"held_out": held_out, "in_deviations": getattr(model, "_in_deviations", False)}
    return {} if path is None else {f"path_{name}": values for name, values in path.items()}, facts


def read(model: Any, arrays: Arrays, facts: Facts) -> None:
    """Set `path_` and `held_out_`; the files of older versions have neither."""
    path = {k.removeprefix("path_"): parts.floats(arrays, k, None) for k in arrays if k.startswith("path_")}
    if len({len(values) for values in path.values()}) > 1:
        raise ValueError("path")
    model.path_ = path or None
    model._in_deviations = parts.flag(facts, "in_deviations") if "in_deviations" in facts else False
    found = facts.get("held_out")
    model.held_out_ = None if found is None else {k: parts.number(found, k) for k in ERRORS}
