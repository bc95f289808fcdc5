"""Settings and fingerprints of the data that must be the same when a fit continues from a checkpoint."""

from __future__ import annotations

import numpy as np

from rslm.data.prepared.manifest import checksums
from rslm.problem import Problem
from rslm.runtime.version import __version__

Settings = dict[str, str | float | None]

SEED, ON_WORKERS, LOCATION, COVARIATES = "random state", "values and positions", "location", "covariates"
TO_FIND, OF_ZEROS = "settings to find", "weight of zeros"
DATA = ("observations", "values", "positions", "weights", ON_WORKERS)
FOLLOWS = {  # if the key differs, these may differ as a consequence and are not reported
    "shape": (*DATA, "loss at some observations", "weighting of rows", "weighting of columns", COVARIATES),
    "observations": (*DATA[1:], "loss at some observations", "weighting of rows", "weighting of columns", COVARIATES),
    LOCATION: (COVARIATES,),
    TO_FIND: ("rank", "C", LOCATION, "weighting of rows", "weighting of columns", OF_ZEROS),
    "C": (LOCATION,),  # ridges are relative to it
    "values": ("loss at some observations",),
    "loss": ("loss at some observations", "values"),
    "bounds or structure": ("numbers of these",),
}
SAMPLE = 16  # observations at which the loss is evaluated


def settings_of(problem: Problem, rank: int, solver: str, tol: float, random_state: object) -> Settings:
    """Settings by name, so that a difference can be reported; arrays are represented by checksums."""
    d, T = problem.shape
    return {
        "shape": f"{d} × {T}",
        "observations": len(problem.data),
        **problem.data.fingerprint(),
        "intercepts": str(problem.data.intercept),
        "loss": repr(problem.loss),
        "loss at some observations": _loss_at_some(problem),
        "bounds or structure": None if problem.structure.form == "free" else repr(problem.structure),
        "numbers of these": checksums(*problem.structure.arrays()),
        **_location(problem),
        "C": problem.C,
        "weighting of rows": None if problem.row_weights is None else checksums(problem.row_weights),
        "weighting of columns": None if problem.column_weights is None else checksums(problem.column_weights),
        "rank": int(rank),
        "solver": solver,
        "tol": float(tol),
        SEED: int(random_state) if isinstance(random_state, int | np.integer) else None,
        "version of rslm": __version__,
    }


def differences(before: Settings, now: Settings) -> list[str]:
    """All differences, except those that follow from another one.

    Seeds can be compared only if both are numbers, not if one is a generator.
    """
    if (ON_WORKERS in before) != (ON_WORKERS in now):
        there, here = ("on a cluster", "without") if ON_WORKERS in before else ("in one process", "with")
        return [f"it was written by a fit {there}, and this fit is {here} a client"]
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    explained = {part for name in names for part in FOLLOWS.get(name, ())}
    return [
        f"{name}: {_shown(before.get(name))} in the checkpoint, {_shown(now.get(name))} now"
        for name in names
        if name not in explained and not (name == SEED and None in (before.get(name), now.get(name)))
    ]


def _location(problem: Problem) -> Settings:
    """The parts of the location with all digits of their ridges, and how many covariates there are."""
    location = problem.location
    if location is None:
        return {LOCATION: None, COVARIATES: None}
    parts = ["mean"] if location.mean else []
    parts += [
        f"{name} {ridge!r}"
        for name, ridge in (("rows", location.rows), ("columns", location.columns))
        if ridge is not None
    ]
    parts += [f"{location.n_covariates} covariates"] if location.covariates is not None else []
    sums = None if location.covariates is None else f"{location.n_covariates}: {checksums(location.covariates)}"
    return {LOCATION: ", ".join(parts), COVARIATES: sums}


def point_shape(settings: Settings) -> tuple[int, int]:
    """How many rows and columns a point has in addition to those of U, whose rows are the rows of W."""
    if settings.get(LOCATION) is None:
        return 0, 0
    covariates = settings.get(COVARIATES)
    return 1 + (0 if covariates is None else int(str(covariates).split(":")[0])), 1


def _shown(value: str | float | None) -> str:
    return "none" if value is None else str(value)


def _loss_at_some(problem: Problem) -> str:
    """The sum of the loss at some observations, because the repr of a user's loss may not show its parameters."""
    y = np.asarray(problem.data.sample(SAMPLE), dtype=np.float64)
    return f"{float(np.sum(problem.loss.value(y, 0.5 + np.arange(len(y))))):.9g}"
