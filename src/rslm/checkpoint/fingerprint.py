"""What a fit and the checkpoint that it goes on from must agree in: the data, and all that the numbers depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data.prepared.manifest import checksum
from rslm.measurements import Tasks
from rslm.measurements.remote import Elsewhere
from rslm.problem import Problem
from rslm.runtime.version import __version__
from rslm.structures import Box, LinearStructure, Smooth

Settings = dict[str, str | float | None]

SEED, ON_WORKERS = "random state", "values and positions"
DATA = ("observations", "values", "positions", ON_WORKERS)
FOLLOWS = {  # what is other where something else is
    "shape": (*DATA, "loss at some observations", "weighting of rows", "weighting of columns"),
    "observations": (*DATA[1:], "loss at some observations", "weighting of rows", "weighting of columns"),
    "values": ("loss at some observations",),
    "loss": ("loss at some observations", "values"),
    "bounds or structure": ("numbers of these",),
}
SOME = 16  # observations at which the loss is looked at


def settings_of(problem: Problem, rank: int, solver: str, tol: float, random_state: object) -> Settings:
    """By name, so that a difference can be told; of arrays a checksum."""
    d, T = problem.shape
    return {
        "shape": f"{d} × {T}",
        "observations": len(problem.data),
        **_of_data(problem.data),
        "intercepts": str(problem.data.intercept) if isinstance(problem.data, Tasks) else None,
        "loss": repr(problem.loss),
        "loss at some observations": _loss_at_some(problem),
        "bounds or structure": None if problem.structure is None else repr(problem.structure),
        "numbers of these": _of_structure(problem.structure),
        "C": problem.C,
        "weighting of rows": None if problem.row_weights is None else _sum(problem.row_weights),
        "weighting of columns": None if problem.column_weights is None else _sum(problem.column_weights),
        "rank": int(rank),
        "solver": solver,
        "tol": float(tol),
        SEED: int(random_state) if isinstance(random_state, int | np.integer) else None,
        "version of rslm": __version__,
    }


def differences(before: Settings, now: Settings) -> list[str]:
    """Everything in which they differ, but for what follows from something that is told already.

    Seeds differ if both are numbers: of generators nothing is known.
    """
    if (ON_WORKERS in before) != (ON_WORKERS in now):
        there, here = ("a cluster", "without") if ON_WORKERS in before else ("one process", "with")
        return [f"it was written by a fit of {there}, and this one is {here} a client"]
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    explained = {part for name in names for part in FOLLOWS.get(name, ())}
    return [
        f"{name}: {_shown(before.get(name))} in the checkpoint, {_shown(now.get(name))} now"
        for name in names
        if name not in explained and not (name == SEED and None in (before.get(name), now.get(name)))
    ]


def _shown(value: str | float | None) -> str:
    return "none" if value is None else str(value)


def _of_data(data: Any) -> Settings:
    if isinstance(data, Elsewhere):
        return {ON_WORKERS: data.fingerprint()}
    return {name: _sum(*arrays) for name, arrays in data.arrays().items()}


def _sum(*arrays: NDArray[Any]) -> str:
    return " ".join(f"{checksum(array):08x}" for array in arrays)


def _loss_at_some(problem: Problem) -> str:
    """A loss of the user's own may keep its parameters where its name does not show them."""
    y = np.asarray(problem.data.sample(SOME), dtype=np.float64)
    return f"{float(np.sum(problem.loss.value(y, 0.5 + np.arange(len(y))))):.9g}"


def _of_structure(structure: object) -> str | None:
    """Bounds by their numbers, a linear structure by what it makes of some numbers: more of it is not known."""
    if isinstance(structure, Box):
        return _sum(*(np.asarray(plane) for plane in structure.planes(structure.shape)))
    rng = np.random.default_rng(0)
    if isinstance(structure, Smooth):
        given = [L for L in (structure.rows, structure.columns) if L is not None]
        return " ".join(_sum(np.asarray(L @ rng.standard_normal(L.shape[0]))) for L in given)
    if not isinstance(structure, LinearStructure):
        return None
    product = structure.whole_times(rng.standard_normal(structure.size), rng.standard_normal((structure.shape[1], 2)))
    return f"{float(np.vdot(product, rng.standard_normal(product.shape))):.9g}"
