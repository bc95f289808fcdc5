"""A fit on disk, as far as it has come, and how it goes on from there.

The way to an answer leads over stages, which follow from one another and cannot be stored. So of every stage that has
ended there is the point where it did: a fit that goes on evaluates these, one after the other, and comes to the same
stage with the same numbers. Of that one there is a point on the way, with what its method remembers.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from rslm.checkpoint.fingerprint import Settings, differences
from rslm.data import parts
from rslm.runtime.log import logger
from rslm.runtime.outcome import Outcome
from rslm.runtime.types import Floats
from rslm.storage.atomic import UNFINISHED, remove_abandoned, target_of, unfinished_prefix
from rslm.storage.container import Arrays, Facts, Kind, read_container, write_container

CHECKPOINT = Kind(
    "checkpoint",
    2,
    "fit(…, checkpoint=path) and rslm complete --checkpoint",
    "Delete it, to begin again, or name another file.",
)
TINY = float(np.finfo(np.float64).tiny)
OFF = 1e-6  # by which the length of a point may differ from 1; rounding makes it far less
PART = 0.05  # of the time, at most, that is spent on writing

State = dict[str, Any]  # numbers and arrays by name


@dataclass(frozen=True)
class Ended:
    """Where a stage has ended."""

    U: Floats
    outcome: Outcome
    iteration: int


@dataclass(frozen=True)
class Present:
    """What the present stage continues from."""

    U: Floats
    method: State
    patience: list[tuple[float, float]]  #: what `NoProgress` has seen


@dataclass(frozen=True)
class Snapshot:
    """A fit, as far as it has come."""

    from_data: bool  #: whether it has begun at the data, not at a point that was given
    ended: list[Ended]
    present: Present | None  #: None when there is no stage left
    iteration: int
    seconds: float
    work: tuple[int, int]  #: evaluations and Hessian products
    records: list[tuple[float, ...]]


class Checkpoint:
    """The file, which is looked at once and then written now and then.

    Parameters
    ----------
    path : path
        An error if there is a file that is not a checkpoint of the same fit, or if none could be written.
    settings : Settings
        What the fit that goes on must agree in with the one that was stopped.
    recorded : int
        How many numbers the history has of every iteration.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Settings, recorded: int) -> None:
        self.path, self._settings, self._recorded = path, settings, recorded
        self.found = self._read() if target_of(path).exists() else None
        _try_out(path)
        if self.found is not None:
            logger.info("going on from %s: iteration %d, %.0f s so far", path, self.found.iteration, self.found.seconds)
        self._latest: Snapshot | None = None  # not written yet
        self._next = -np.inf

    def note(self, snapshot: Snapshot) -> None:
        """Remember where the fit stands; write it if the last time is long enough ago."""
        self._latest = snapshot
        if time.perf_counter() >= self._next:
            self.keep()

    def keep(self) -> None:
        """Write what was noted last, if that has not been done."""
        if self._latest is None:
            return
        began = time.perf_counter()
        write_container(self.path, CHECKPOINT, *_packed(self._latest, self._settings), repeated=True)
        self._latest, now = None, time.perf_counter()
        self._next = now + (now - began) / PART

    def _read(self) -> Snapshot:
        header, arrays = read_container(self.path, CHECKPOINT)
        settings = header.get("settings")
        if not isinstance(settings, dict):
            raise _damaged(self.path, "settings")
        differing = differences(settings, self._settings)
        if differing:
            raise ValueError(
                f"{os.fspath(self.path)!r} is a checkpoint of another fit; {'; '.join(differing)}. To go on from it, "
                "use the data and settings that it was written with; to begin again, delete it or name another file."
            )
        try:
            return _unpacked(header, arrays, self._settings, self._recorded)
        except Exception as error:  # whatever is in a header, and whatever comes of it
            raise _damaged(self.path, parts.part_of(error)) from error


def _damaged(path: str | os.PathLike[str], part: str) -> ValueError:
    return ValueError(f"{os.fspath(path)!r} is damaged: {part} is missing or wrong. {CHECKPOINT.remedy}")


def iterations_and_seconds(path: str | os.PathLike[str]) -> tuple[int, float] | None:
    """How far the fit of a checkpoint has come; None if there is no such file."""
    if not target_of(path).exists():
        return None
    header = read_container(path, CHECKPOINT)[0]
    try:
        return parts.whole(header, "iteration"), parts.number(header, "seconds", least=0.0)
    except (KeyError, ValueError) as error:
        raise _damaged(path, parts.part_of(error)) from None


def _try_out(path: str | os.PathLike[str]) -> None:
    """An error now, not after hours, if no file can be written there; and what a killed process has left is gone."""
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
        facts["present"] = {"method": method, "patience": present.patience}
        arrays["U"] = present.U
        arrays |= {f"method_{k}": v for k, v in present.method.items() if isinstance(v, np.ndarray)}
    return facts, arrays


def _method(facts: Facts, arrays: Arrays, shape: tuple[int, ...], trust_region: bool) -> State:
    """What a method remembers: conjugate gradients, or a trust region, which begins with some of them."""
    state: State = {}
    if trust_region:
        state["opening_steps"] = parts.whole(facts, "opening_steps")
        for name in ("radius", "first_gradient"):
            state[name] = facts[name] if facts[name] is None else parts.number(facts, name, least=TINY)
        if not state["opening_steps"]:
            return state
    state["length"] = parts.number(facts, "length", least=TINY)
    step = "method_step" in arrays
    return state | {
        name: parts.floats(arrays, f"method_{name}", *shape) if step else None for name in ("step", "gradient")
    }


def _unpacked(facts: Facts, arrays: Arrays, settings: Settings, recorded: int) -> Snapshot:
    """The snapshot, with every part looked at: what is wrong is an error now, and not after some iterations."""

    def point(name: str) -> Floats:
        U = parts.floats(arrays, name, int(str(settings["shape"]).split()[0]), None)
        if not 1 <= U.shape[1] <= int(str(settings["rank"])) or abs(float(np.linalg.norm(U)) - 1.0) > OFF:
            raise ValueError(name)
        return U

    ended = [
        Ended(point(f"end_{k}"), Outcome(outcome), parts.whole([iteration], 0))
        for k, (outcome, iteration) in enumerate(facts["ended"])
    ]
    present = None
    if (now := facts["present"]) is not None:
        U = point("U")
        method = _method(now["method"], arrays, U.shape, settings["solver"] == "trust-region")
        patience = [(parts.number(pair, 0), parts.number(pair, 1)) for pair in now["patience"]]
        present = Present(U, method, patience)
    records = parts.floats(arrays, "records", *((None, recorded) if arrays["records"].size else (None,)), finite=False)
    work = parts.whole(facts["work"], 0), parts.whole(facts["work"], 1)
    done = parts.whole(facts, "iteration"), parts.number(facts, "seconds", least=0.0), work
    return Snapshot(parts.flag(facts, "from_data"), ended, present, *done, [tuple(row) for row in records.tolist()])
