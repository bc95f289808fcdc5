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

from rslm._typing import Floats
from rslm.data.appearing import UNFINISHED, beginning_of_unfinished, remove_left_behind, target_of
from rslm.data.sealed import Arrays, Facts, Kind, read_sealed, write_sealed
from rslm.solvers.agreement import Settings, differences
from rslm.solvers.result import Outcome
from rslm.verbosity import logger

CHECKPOINT = Kind(
    "checkpoint",
    1,
    "fit(…, checkpoint=path) and rslm complete --checkpoint",
    "Delete it, to begin again, or name another file.",
)
PART = 0.05  # of the time, at most, that is spent on writing

State = dict[str, Any]  # numbers and arrays by name


@dataclass(frozen=True)
class Ended:
    """Where a stage has ended."""

    U: Floats
    outcome: Outcome
    iteration: int


@dataclass(frozen=True)
class OnTheWay:
    """What a stage goes on from."""

    U: Floats
    method: State
    patience: list[tuple[float, float]]  #: what `NoProgress` has seen


@dataclass(frozen=True)
class Snapshot:
    """A fit, as far as it has come."""

    from_data: bool  #: whether it has begun at the data, not at a point that was given
    ended: list[Ended]
    present: OnTheWay | None  #: None when there is no stage left
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
    """

    def __init__(self, path: str | os.PathLike[str], settings: Settings) -> None:
        self.path, self._settings = path, settings
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
        write_sealed(self.path, CHECKPOINT, *_packed(self._latest, self._settings), over_and_over=True)
        self._latest, now = None, time.perf_counter()
        self._next = now + (now - began) / PART

    def _read(self) -> Snapshot:
        header, arrays = read_sealed(self.path, CHECKPOINT)
        differing = differences(header["settings"], self._settings)
        if differing:
            raise ValueError(
                f"{os.fspath(self.path)!r} is a checkpoint of another fit; {'; '.join(differing)}. To go on from it, "
                "use the data and settings that it was written with; to begin again, delete it or name another file."
            )
        return _unpacked(header, arrays)


def iterations_and_seconds(path: str | os.PathLike[str]) -> tuple[int, float] | None:
    """How far the fit of a checkpoint has come; None if there is no such file."""
    if not target_of(path).exists():
        return None
    header = read_sealed(path, CHECKPOINT)[0]
    return header["iteration"], header["seconds"]


def _try_out(path: str | os.PathLike[str]) -> None:
    """An error now, not after hours, if no file can be written there; and what a killed process has left is gone."""
    target = target_of(path)
    try:
        remove_left_behind(target)
        prefix = beginning_of_unfinished(target)
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


def _unpacked(facts: Facts, arrays: Arrays) -> Snapshot:
    ended = [
        Ended(arrays[f"end_{k}"], Outcome(outcome), iteration) for k, (outcome, iteration) in enumerate(facts["ended"])
    ]
    present = None
    if facts["present"] is not None:
        of_method = {k.removeprefix("method_"): v for k, v in arrays.items() if k.startswith("method_")}
        patience = [(value, gradient) for value, gradient in facts["present"]["patience"]]
        present = OnTheWay(arrays["U"], facts["present"]["method"] | of_method, patience)
    evaluations, products = facts["work"]
    records = [tuple(row) for row in arrays["records"].tolist()]
    done = facts["iteration"], facts["seconds"], (evaluations, products), records
    return Snapshot(facts["from_data"], ended, present, *done)
