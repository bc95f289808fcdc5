"""What a search has found, as parts of a file."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data import parts
from rslm.estimators.tasks.family import LOW_RANK, NONE, RIDGE, Setting
from rslm.estimators.tasks.units import Units
from rslm.location import Location
from rslm.runtime.types import Floats
from rslm.storage.container import Arrays, Facts

UNITS = ("mean", "size", "middle", "scale")
NUMBERS = ("C", "common", "intercepts", "error", "seconds")  # columns of a path, with its rank and its task_part

Path = dict[str, NDArray[Any]]
Found = tuple[Setting, Units, Path | None, dict[str, float] | None]


def written(
    setting: Setting, units: Units, path: Path | None, held_out: dict[str, float] | None
) -> tuple[Arrays, Facts]:
    arrays: Arrays = {f"unit_{name}": getattr(units, name) for name in UNITS}
    arrays |= {f"path_{name}": values for name, values in (path or {}).items()}
    return arrays, {"setting": asdict(setting), "held_out": held_out}


def read(arrays: Arrays, facts: Facts, features: int, tasks: int) -> Found:
    units = Units(
        *(parts.floats(arrays, f"unit_{name}", n) for name, n in zip(UNITS, _lengths(features, tasks), strict=True))
    )
    if not (units.size > 0).all():
        raise ValueError("unit_size")
    path: Path | None = None
    if "path_C" in arrays:
        count = len(arrays["path_C"])
        path = {"task_part": parts.words(arrays, "path_task_part", count).astype(str)}
        path["rank"] = parts.positions(arrays, "path_rank", count, 1 << 30)
        path |= {name: parts.floats(arrays, f"path_{name}", count, finite=False) for name in NUMBERS}
    given: Any = facts["held_out"]
    held_out = None if given is None else {str(name): parts.any_number(given, name) for name in given}
    return _setting(facts["setting"]), units, path, held_out


def before(params: Facts, U: Floats) -> Found:
    """Of files that were written before there were searches."""
    setting = Setting(LOW_RANK, parts.number(params, "C"), U.shape[1], None, None)
    return setting, Units.none(len(U), 1), None, None


def location(facts: Any) -> Location | None:
    """The location of a model; a new task needs it."""
    if facts is None:
        return None
    return Location(parts.flag(facts, "mean"), facts["rows"], facts["columns"])


def _lengths(features: int, tasks: int) -> tuple[int, ...]:
    return features, features, tasks, tasks


def _setting(facts: Any) -> Setting:
    part = parts.text(facts, "task_part")
    if part not in (LOW_RANK, RIDGE, NONE):
        raise ValueError("task_part")
    common, intercepts = (
        None if facts[name] is None else parts.number(facts, name, least=0.0) for name in ("common", "intercepts")
    )
    C = parts.number(facts, "C", least=np.finfo(float).tiny)
    return Setting(part, C, parts.whole(facts, "rank"), common, intercepts)
