"""The user's bounds of a samples × features matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from rslm.data import ObservedMatrix
from rslm.data.labels import show_id
from rslm.estimators.warn import warn_caller
from rslm.kernels import Columns
from rslm.runtime.magnitudes import LARGEST
from rslm.runtime.threads import thread_count
from rslm.runtime.types import Floats
from rslm.solvers.cost import cost_of_bounds
from rslm.structures import Box
from rslm.structures.box import ObservedBeyond, worst

FORMS = "bounds must be None, (lower, upper), each a number, an array or None, or a rslm.structures.Box"


def cost_in_words(bounds: Any, shape: tuple[int, int], rank: int, n_threads: int | None = None) -> str | None:
    """A line about the cost of bounds; None without bounds, or where they cost little."""
    box = as_box(bounds, shape)
    return None if box is None else cost_of_bounds(shape, rank, thread_count(n_threads))


def as_box(bounds: Any, shape: tuple[int, int], names: Any = None) -> Box | None:
    """The bounds that an estimator was given; None if there are none. `names` are those of the features."""
    if bounds is None:
        return None
    if not isinstance(bounds, Box):
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise ValueError(f"{FORMS}; got {bounds!r}")
        lower, upper = (_checked(name, b, shape, names) for name, b in zip(("lower", "upper"), bounds, strict=True))
        _check_order(lower, upper, shape, names)
        bounds = Box(lower, upper)
    try:
        bounds.planes(shape)
    except ValueError:
        raise ValueError(
            f"bounds of shape {bounds.shape} do not go with {shape[0]} samples of {shape[1]} features; needed is one "
            f"number, ({shape[1]},) for one of every feature, ({shape[0]}, 1) for every sample, or {shape}"
        ) from None
    return None if bounds.trivial else bounds


def _checked(name: str, bound: Any, shape: tuple[int, int], names: Any) -> Floats | None:
    if bound is None:
        return None
    try:
        values = np.asarray(bound, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{FORMS}; the {name} one is {bound!r}") from None
    if values.ndim == 1 and values.shape != (1,) and len(values) != shape[1]:
        raise ValueError(f"the {name} bound has {len(values)} numbers, but X has {shape[1]} features")
    bad = np.argwhere(np.isnan(np.atleast_2d(values)))
    if len(bad):
        where = "" if values.size == 1 else f" for {_feature(int(bad[0][1]), names)}"
        raise ValueError(f"the {name} bound is NaN{where}; None or ±inf stand for no bound")
    return values


def _check_order(lower: Floats | None, upper: Floats | None, shape: tuple[int, int], names: Any) -> None:
    if lower is None or upper is None:
        return
    try:
        low, high = np.broadcast_arrays(np.atleast_2d(lower), np.atleast_2d(upper))
    except ValueError:
        raise ValueError(f"the bounds do not broadcast: their shapes are {lower.shape} and {upper.shape}") from None
    crossed = np.argwhere(low > high)
    if len(crossed):
        i, j = (int(k) for k in crossed[0])
        where = "" if low.size == 1 else f" for {_feature(j, names)}" + (f" of sample {i}" if low.shape[0] > 1 else "")
        raise ValueError(f"the lower bound is above the upper one{where}: {low[i, j]:g} > {high[i, j]:g}")


def _feature(j: int, names: Any) -> str:
    return f"feature {j}" if names is None else f"feature {names[j]!r}"


def beyond(box: Box, data: ObservedMatrix) -> ObservedBeyond | None:
    """Observed values that are beyond their bounds; None if there are none. Works on some rows at a time."""
    found = []
    for first, last in Columns(data.indptr, data.index, data.shape[1]).blocks():
        at = slice(int(data.indptr[first]), int(data.indptr[last]))
        rows = np.repeat(np.arange(first, last), np.diff(data.indptr[first : last + 1]))
        found.append(box.observed_beyond(rows, data.index[at], data.values[at]))
    return worst(found)


def warn_of_beyond(box: Box, data: Any, found: ObservedBeyond | None) -> None:
    """Warn of observed values beyond the bounds, or refuse them if the bounds are strict."""
    if found is None:
        return
    place = f"row {show_id(data.row_ids, found.row)}, column {show_id(data.col_ids, found.column)}"
    side = "below the lower" if found.by < 0 else "above the upper"
    message = (
        f"{found.many} of {len(data)} observed values are beyond the bounds; the worst one, {found.value:g} at {place}"
    )
    message += f", is {abs(found.by):g} {side} bound"
    if box.strict:
        raise ValueError(f"{message}. Correct them, or leave out strict=True to fit them as well as the bounds allow.")
    warn_caller(f"{message}; they are fitted as well as the bounds allow")


def clipped(values: Floats, box: Box | None, rows: Any, cols: Any) -> Floats:
    """Predictions clipped to the bounds, which rounding errors may exceed."""
    return values if box is None else box.clip(rows, cols, values)


def solved_box(box: Box | None, scale: float) -> Box | None:
    """The bounds of the problem that is solved: divided by the scale, without those out of reach; None without any."""
    if box is None:
        return None
    box = (box if scale == 1.0 else box.divided_by(scale)).within_reach(LARGEST)
    return None if box.trivial else box


def to_plain(bounds: Any) -> Any:
    """Bounds as JSON."""
    if isinstance(bounds, Box):
        lower, upper = np.asarray(bounds.lower), np.asarray(bounds.upper)
        return {"lower": lower.tolist(), "upper": upper.tolist(), "strict": bounds.strict}
    return None if bounds is None else [None if b is None else np.asarray(b).tolist() for b in bounds]


def from_plain(plain: Any) -> Any:
    """Bounds from JSON."""
    if isinstance(plain, dict):
        return Box(plain["lower"], plain["upper"], strict=plain["strict"])
    return None if plain is None else tuple(np.asarray(b) if isinstance(b, list) else b for b in plain)
