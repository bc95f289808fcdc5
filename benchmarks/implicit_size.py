"""Clicks out of core: 1 million users, 100,000 items and 100 million clicks in a prepared folder, fitted by a process
of its own; its seconds and its memory.

python benchmarks/implicit_size.py [number of clicks] [folder for the data, some GB]

Memory is what the process has beyond the interpreter and the libraries, without files that are mapped, which can be
read again at any time. What is generated is removed in the end.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import peak_memory, report
from rslm import ImplicitCompletion
from rslm.data.prepared.manifest import SIDES, Manifest, Shard, checksum, ids_file
from rslm.data.prepared.opened import open_prepared
from scale import Watch

USERS, ITEMS, RANK = 1_000_000, 100_000, 10
KINDS = 50  # of users and items: half of what users take is of their own kind
BLOCKS = 50
POPULARITY = 0.8  # the items have popularities in proportion to 1 / rank^0.8
SPARE = 1.6  # draws per click, since some draws repeat others


def generate(folder: Path, clicks: int, counts: bool) -> None:
    """A folder of prepared data, block by block; with `counts`, clicks are repeated a few times."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    popularity = np.cumsum(np.arange(1, ITEMS + 1) ** -POPULARITY)
    indptr, shards = np.zeros(USERS + 1, dtype=np.int64), []
    arrays = {
        name: np.lib.format.open_memmap(folder / f"{name}.npy", "w+", kind, (clicks,))
        for name, kind in (("index", np.int32), ("values", np.float32))
    }
    cuts = np.linspace(0, USERS, BLOCKS + 1).astype(int)
    ends = np.linspace(0, clicks, BLOCKS + 1).astype(int)
    for first, last, start, end in zip(cuts[:-1], cuts[1:], ends[:-1], ends[1:], strict=True):
        rows, items = _block(rng, last - first, end - start, popularity)
        arrays["index"][start:end] = items
        arrays["values"][start:end] = rng.geometric(0.6, len(items)) if counts else 1.0
        indptr[first + 1 : last + 1] = start + np.cumsum(np.bincount(rows, minlength=last - first))
        sums = {name: checksum(array[start:end]) for name, array in arrays.items()}
        shards.append(Shard(int(first), int(last), **sums))
    np.save(folder / "indptr.npy", indptr)
    for side, count in zip(SIDES, (USERS, ITEMS), strict=True):
        np.save(folder / f"{side}_ids.npy", np.arange(count, dtype=np.int32))
    ids = tuple(zlib.crc32(ids_file(folder, side).read_bytes()) for side in SIDES)
    Manifest((USERS, ITEMS), clicks, checksum(indptr), tuple(shards), "generated", ids).write(folder)


def _block(
    rng: np.random.Generator, users: int, clicks: int, popularity: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct pairs of a user and an item, in order: some users take more, some items are taken more."""
    activity = rng.lognormal(0.0, 0.7, users)
    draws = rng.poisson(SPARE * clicks * activity / activity.sum())
    rows = np.repeat(np.arange(users), draws)
    items = np.searchsorted(popularity, rng.random(len(rows)) * popularity[-1])
    own = rng.random(len(rows)) < 0.5
    kinds = rows % KINDS
    items = np.where(own, np.minimum(items // KINDS * KINDS + kinds, ITEMS - 1), items)
    keys = np.sort(rows * np.int64(ITEMS) + items)
    keys = keys[np.diff(keys, prepend=-1) > 0]
    left = np.ones(len(keys), dtype=np.bool_)
    left[rng.permutation(len(keys))[clicks:]] = False
    keys = keys[left]
    return keys // ITEMS, keys % ITEMS


def fitting(folder: Path, **settings: Any) -> dict[str, Any]:
    model = ImplicitCompletion(RANK, random_state=0, tol=1e-3, **settings).fit(folder)
    evaluations, products = (int(model.history_[k][-1]) for k in ("evaluations", "hessian_products"))
    facts = {"C": model.C_, "alpha0": model.alpha0_, "weighting": model.weighting_, "outcome": model.outcome_}
    facts |= {"gap": float(model.certificate_.relative_gap), "evaluations": evaluations, "Hessian products": products}
    if model.held_out_ is not None:
        facts |= {"trials": len(model.path_["C"]), "search s": float(model.path_["seconds"].sum())}
        facts |= {f"ndcg@100 of {name}": score for name, score in model.held_out_.items()}
    return facts


def saving(folder: Path) -> dict[str, Any]:
    """A fit of few iterations, and its file."""
    data = open_prepared(folder)
    model = ImplicitCompletion(2, C=300.0, alpha0=0.2, weighting=0.0, random_state=0, tol=0.5).fit(data)
    model.save(folder / "model.rslm")
    return {"file GB": (folder / "model.rslm").stat().st_size / 1e9}


MAX_TIME = 1200.0  # seconds for settings and fit together
GIVEN = {"C": 1e4, "alpha0": 0.2, "weighting": 0.0}
TASKS: dict[str, tuple[bool, Callable[[Path], dict[str, Any]]]] = {
    "clicks, settings given": (False, lambda folder: fitting(folder, **GIVEN)),
    "clicks, settings found": (False, lambda folder: fitting(folder, max_time=MAX_TIME)),
    "clicks, rank 2 and a file": (False, saving),
    "counts, settings given": (True, lambda folder: fitting(folder, **GIVEN)),
}


def run(name: str, folder: Path) -> None:
    """One task, in this process."""
    began = time.perf_counter()
    with Watch() as watch:
        facts = TASKS[name][1](folder)
    seconds = time.perf_counter() - began
    memory = {"memory GB": (watch.most - watch.before) / 1e9, "with mapped files GB": peak_memory() / 1e9}
    print(json.dumps({"task": name, "s": seconds, "CPU s": time.process_time()} | memory | facts))


def main() -> None:
    if sys.argv[1:2] == ["--task"]:
        return run(sys.argv[2], Path(sys.argv[3]))
    clicks = int(float(sys.argv[1])) if len(sys.argv) > 1 else 100_000_000
    home = Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.gettempdir())
    rows = []
    for counts in (False, True):
        folder = Path(tempfile.mkdtemp(prefix="clicks-", dir=home)) / "data"
        try:
            generate(folder, clicks, counts)
            for name, (of_counts, _) in TASKS.items():
                if of_counts != counts:
                    continue
                command = [sys.executable, __file__, "--task", name, str(folder)]
                ended = subprocess.run(command, capture_output=True, text=True)
                last = (ended.stderr if ended.returncode else ended.stdout).strip().splitlines()[-1]
                rows.append({"task": name, "failed": last} if ended.returncode else json.loads(last))
                print(rows[-1], flush=True)
        finally:
            shutil.rmtree(folder.parent)
    return report("implicit_size", rows, users=USERS, items=ITEMS, clicks=clicks)


if __name__ == "__main__":
    main()
