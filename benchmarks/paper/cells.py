"""The unit of work. A finished cell is stored at once and not computed again, so a run can be stopped at any time."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from common import commit, today
from rslm.storage.atomic import atomic_text

Result = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One call of a function of JSON values, in a process with one thread."""

    label: str
    call: str  #: "module:function"
    arguments: dict[str, Any]
    sources: tuple[str, ...]  #: modules and packages whose text decides the result

    @cached_property
    def key(self) -> str:
        """What identifies the result: the call, its arguments and the text of the sources.

        It is that of the sources as they are at the first look, before the cell is computed.
        """
        texts = [_text(name) for name in self.sources]
        parts = json.dumps([self.call, self.arguments, texts], sort_keys=True)
        return hashlib.sha256(parts.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Section:
    """A part of the page, and its figures by name."""

    title: str
    body: str
    figures: dict[str, Any] = field(default_factory=dict)


Plan = Generator[list[Cell], list[Result], Section]


class Missing(Exception):  # noqa: N818 - not an error: the study has not been run
    """A cell that is not stored."""


class Store:
    """Finished cells, one JSON file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, cell: Cell) -> Path:
        return self.folder / cell.call.split(":")[0].rsplit(".", 1)[-1] / f"{cell.key}.json"

    def find(self, cell: Cell) -> dict[str, Any] | None:
        path = self.path(cell)
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def put(self, cell: Cell, result: Result, seconds: float) -> None:
        path = self.path(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = {"label": cell.label, "arguments": cell.arguments, "result": result}
        with atomic_text(path) as file:
            json.dump(kept | {"seconds": seconds, "date": today(), "commit": commit()}, file, indent=1)


def run(plan: Plan, compute: Callable[[list[Cell]], list[Result]]) -> Section:
    """Drive a study: each round of cells is computed, or found, and its results go back to it."""
    try:
        cells = next(plan)
        while True:
            cells = plan.send(compute(cells))
    except StopIteration as end:
        section: Section = end.value
        return section


def stored(store: Store) -> Callable[[list[Cell]], list[Result]]:
    """Only what is stored; `Missing` if anything is not."""

    def look(cells: list[Cell]) -> list[Result]:
        found = [store.find(cell) for cell in cells]
        absent = [cell.label for cell, f in zip(cells, found, strict=True) if f is None]
        if absent:
            raise Missing(f"{len(absent)} of {len(cells)} cells are missing, for example {absent[0]}")
        return [f["result"] for f in found if f is not None]

    return look


def computed(store: Store, jobs: int, say: Callable[[str], None]) -> Callable[[list[Cell]], list[Result]]:
    """What is not stored is computed by `jobs` processes. A cell that fails is reported, and tried again next time."""

    def work(cells: list[Cell]) -> list[Result]:
        found = [store.find(cell) for cell in cells]
        open_ = [cell for cell, f in zip(cells, found, strict=True) if f is None]  # their keys are known by now
        fresh = dict(_in_processes(store, open_, jobs, say))
        return [fresh[cell.key] if f is None else f["result"] for cell, f in zip(cells, found, strict=True)]

    return work


def _in_processes(
    store: Store, cells: list[Cell], jobs: int, say: Callable[[str], None]
) -> Iterator[tuple[str, Result]]:
    # A new process for each cell: what one has left in memory or in caches does not matter to the next.
    context = multiprocessing.get_context("spawn")
    waiting, running, done = cells[::-1], dict[Any, tuple[Cell, Any]](), 0
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                cell = waiting.pop()
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(cell, theirs), daemon=True)
                process.start()
                theirs.close()
                running[ours] = cell, process
            for pipe in wait(list(running)):
                cell, process = running.pop(pipe)
                result, seconds = _received(pipe)
                process.join()
                done += 1
                failed = "error" in result
                if not failed:
                    store.put(cell, result, seconds)
                note = f"FAILED, {result['error']}" if failed else f"{seconds:.1f} s"
                say(f"  {done}/{len(cells)}  {cell.label}: {note}")
                yield cell.key, result
    finally:
        for _, process in running.values():
            process.terminate()


def _received(pipe: Any) -> tuple[Result, float]:
    try:
        found: tuple[Result, float] = pipe.recv()
    except EOFError:
        found = {"error": "its process ended without a result"}, 0.0
    pipe.close()
    return found


def _work(cell: Cell, pipe: Any) -> None:
    """The worker. It ignores Ctrl-C, which reaches it too: the process that waits for it ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe.send(_call(cell))


def _call(cell: Cell) -> tuple[Result, float]:
    """In the worker. BLAS has read its number of threads from the environment when NumPy was imported."""
    began = time.perf_counter()
    try:
        module, _, name = cell.call.partition(":")
        result: Result = getattr(importlib.import_module(module), name)(**cell.arguments)
    except Exception as failure:
        traceback.print_exc()
        result = {"error": f"{type(failure).__name__}: {failure}"}
    return result, time.perf_counter() - began


def one_thread() -> None:
    """So that all methods have the same: to be called before the first worker starts."""
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ[name] = "1"


@cache
def _text(name: str) -> str:
    """Of a module, or of all modules of a package."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"{name}, named as a source of a cell, is not there")
    folder = Path(found.origin).parent
    files = sorted(folder.rglob("*.py")) if found.submodule_search_locations else [Path(found.origin)]
    return "".join(file.read_text(encoding="utf-8") for file in files)
