"""The state of a fit on disk, from which it can continue.

Each stage of a continuation path depends on the results of the stages before it, which are too large to store. So the
file has the last point of every stage that has ended: a fit that continues evaluates these points in order, which leads
to the same stage with the same numbers. For the present stage it has the last point and the state of the method.

A fit whose settings have to be found first has one more part in the file, that of the search. It is written before the
fit begins, and every later state of the file keeps it.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from rslm.checkpoint.fingerprint import Settings, differences, point_shape
from rslm.data import parts
from rslm.runtime.log import logger
from rslm.runtime.outcome import Outcome
from rslm.runtime.types import Floats
from rslm.storage.atomic import UNFINISHED, remove_abandoned, target_of, unfinished_prefix
from rslm.storage.container import Arrays, Facts, Kind, read_container, write_container

CHECKPOINT = Kind(
    "checkpoint",
    3,
    "fit(…, checkpoint=path) and rslm complete --checkpoint",
    "Delete it to start again, or give another path.",
)
TINY = float(np.finfo(np.float64).tiny)
OFF = 1e-6  # largest deviation of the norm of a point from 1; rounding errors are much smaller
PART = 0.05  # largest share of the time that is spent on writing
SEARCH = "search"  # the part of a search in the header, and the beginning of the names of its arrays
FOUND = "setting"  # in this part, when the search has ended

State = dict[str, Any]  # numbers and arrays by name


@dataclass(frozen=True)
class Ended:
    """Where a stage has ended."""

    U: Floats
    outcome: Outcome
    iteration: int


@dataclass(frozen=True)
class Present:
    """The state from which the present stage continues."""

    U: Floats
    method: State
    patience: list[tuple[float, float]]  #: the state of `NoProgress`
    single: bool  #: whether points are still evaluated in single precision


@dataclass(frozen=True)
class Snapshot:
    """The state of a fit."""

    from_data: bool  #: whether it started from the data, not from a given point
    ended: list[Ended]
    present: Present | None  #: None when there is no stage left
    iteration: int
    seconds: float
    work: tuple[int, int]  #: evaluations and Hessian products
    records: list[tuple[float, ...]]


class Checkpoint:
    """The file, which is read once and then written from time to time.

    Parameters
    ----------
    path : path
        It is an error if there is a file that is not a checkpoint of the same fit, or if none can be written.
    settings : Settings
        The settings and fingerprints that must be the same when a fit continues.
    recorded : int
        How many numbers the history has per iteration.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Settings, recorded: int) -> None:
        self.path, self._settings, self._recorded = path, settings, recorded
        self._search: tuple[Facts, Arrays] = {}, {}  # its part of the file
        self.found = self._read() if target_of(path).exists() else None
        try_out(path)
        if self.found is not None:
            logger.info("resuming from %s: iteration %d, %.0f s so far", path, self.found.iteration, self.found.seconds)
        self._latest: Snapshot | None = None  # not written yet
        self._next = -np.inf

    def note(self, snapshot: Snapshot) -> None:
        """Remember the state of the fit; write it if the last write was long enough ago."""
        self._latest = snapshot
        if time.perf_counter() >= self._next:
            self.keep()

    def keep(self) -> None:
        """Write the last noted state, if it has not been written."""
        if self._latest is None:
            return
        began = time.perf_counter()
        facts, arrays = _packed(self._latest, self._settings)
        write_container(self.path, CHECKPOINT, facts | self._search[0], arrays | self._search[1], repeated=True)
        self._latest, now = None, time.perf_counter()
        self._next = now + (now - began) / PART

    def _read(self) -> Snapshot | None:
        header, arrays = read_container(self.path, CHECKPOINT)
        if SEARCH in header:
            of_search = {name: array for name, array in arrays.items() if name.startswith(SEARCH)}
            self._search = {SEARCH: header[SEARCH]}, of_search
            if "settings" not in header:  # the fit has not begun
                if FOUND not in header[SEARCH]:
                    raise ValueError(
                        f"{os.fspath(self.path)!r} is a checkpoint of another fit, which searches for settings that "
                        "are given now. To resume it, leave them open; to start again, delete it or give another path."
                    )
                return None
        check_settings(self.path, header, self._settings)
        try:
            return _unpacked(header, arrays, self._settings, self._recorded)
        except Exception as error:  # a damaged header may cause any error
            raise damaged(self.path, parts.part_of(error)) from error


def check_settings(path: str | os.PathLike[str], facts: Any, now: Settings) -> None:
    """An error if the settings in a part of the file are not those of this fit."""
    before = facts.get("settings") if isinstance(facts, dict) else None
    if not isinstance(before, dict):
        raise damaged(path, "settings")
    if differing := differences(before, now):
        raise ValueError(
            f"{os.fspath(path)!r} is a checkpoint of another fit; {'; '.join(differing)}. To resume it, use "
            "the data and settings that it was written with; to start again, delete it or give another path."
        )


def damaged(path: str | os.PathLike[str], part: str) -> ValueError:
    return ValueError(f"{os.fspath(path)!r} is damaged: {part} is missing or wrong. {CHECKPOINT.remedy}")


def iterations_and_seconds(path: str | os.PathLike[str]) -> tuple[int, float] | None:
    """The iterations and seconds of the fit in a checkpoint; None if there is no such file, or only a search in it."""
    if not target_of(path).exists():
        return None
    header = read_container(path, CHECKPOINT)[0]
    if SEARCH in header and "settings" not in header:
        return None
    try:
        return parts.whole(header, "iteration"), parts.number(header, "seconds", least=0.0)
    except (KeyError, ValueError) as error:
        raise damaged(path, parts.part_of(error)) from None


def try_out(path: str | os.PathLike[str]) -> None:
    """Raise an error now, not after hours, if no file can be written; remove temporary files of killed processes."""
    target = target_of(path)
    try:
        remove_abandoned(target)
        prefix = unfinished_prefix(target)
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=prefix, suffix=UNFINISHED):
            pass
    except OSError as error:
        raise type(error)(error.errno, f"{error.strerror}; no checkpoint can be written", os.fspath(path)) from None


def _packed(snapshot: Snapshot, settings: Settings) -> tuple[Facts, Arrays]:
    arrays: Arrays = {f"end_{k}": end.U for k, end in enumerate(snapshot.ended)}
    arrays["records"] = np.array(snapshot.records, dtype=np.float64)
    facts: Facts = {
        "settings": settings,
        "from_data": snapshot.from_data,
        "ended": [[end.outcome.value, end.iteration] for end in snapshot.ended],
        "iteration": snapshot.iteration,
        "seconds": snapshot.seconds,
        "work": snapshot.work,
        "present": None,
    }
    if (present := snapshot.present) is not None:
        method = {name: value for name, value in present.method.items() if not isinstance(value, np.ndarray)}
        facts["present"] = {"method": method, "patience": present.patience, "single": present.single}
        arrays["U"] = present.U
        arrays |= {f"method_{k}": v for k, v in present.method.items() if isinstance(v, np.ndarray)}
    return facts, arrays


def _method(facts: Facts, arrays: Arrays, shape: tuple[int, ...], trust_region: bool) -> State:
    """The state of a method: conjugate gradients, or a trust region, which starts with conjugate-gradient steps."""
    state: State = {}
    if trust_region:
        state["opening_steps"] = parts.whole(facts, "opening_steps")
        state["radius"] = None if facts["radius"] is None else parts.number(facts, "radius", least=TINY)
        state["tolerance"] = parts.number(facts, "tolerance", least=0.0)
        state["rough"] = parts.flag(facts, "rough")
        known = "method_missed" in arrays
        state["missed"] = parts.floats(arrays, "method_missed", None, *shape) if known else None
        if not state["opening_steps"]:
            return state
    state["length"] = parts.number(facts, "length", least=TINY)
    step = "method_step" in arrays
    return state | {
        name: parts.floats(arrays, f"method_{name}", *shape) if step else None for name in ("step", "gradient")
    }


def _unpacked(facts: Facts, arrays: Arrays, settings: Settings, recorded: int) -> Snapshot:
    """The snapshot. Every part is validated, so that an error is raised now and not after some iterations."""

    def point(name: str) -> Floats:
        d, (rows, columns) = int(str(settings["shape"]).split()[0]), point_shape(settings)
        found = parts.floats(arrays, name, d + rows, None)
        U = found[:d, : found.shape[1] - columns]
        if not 1 <= U.shape[1] <= int(str(settings["rank"])) or abs(float(np.linalg.norm(U)) - 1.0) > OFF:
            raise ValueError(name)
        return found

    ended = [
        Ended(point(f"end_{k}"), Outcome(outcome), parts.whole([iteration], 0))
        for k, (outcome, iteration) in enumerate(facts["ended"])
    ]
    present = None
    if (now := facts["present"]) is not None:
        U = point("U")
        method = _method(now["method"], arrays, U.shape, settings["solver"] == "trust-region")
        patience = [(parts.number(pair, 0), parts.number(pair, 1)) for pair in now["patience"]]
        present = Present(U, method, patience, parts.flag(now, "single"))
    records = parts.floats(arrays, "records", *((None, recorded) if arrays["records"].size else (None,)), finite=False)
    work = parts.whole(facts["work"], 0), parts.whole(facts["work"], 1)
    done = parts.whole(facts, "iteration"), parts.number(facts, "seconds", least=0.0), work
    return Snapshot(parts.flag(facts, "from_data"), ended, present, *done, [tuple(row) for row in records.tolist()])
