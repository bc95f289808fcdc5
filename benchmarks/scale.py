"""Larger than memory: prepare and fit a generated table of the size of Netflix, in a process that may take 2 GB beyond
the interpreter; an evaluation in memory, out of core, and by one and two workers of a Dask cluster on this machine,
side by side; and what a model of the cost says of these, and of a cluster that is not here.

python benchmarks/scale.py [number of ratings] [folder for the table, some GB]
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common import best_seconds, report
from rslm import MatrixCompletion, Objective, Problem
from rslm.data import ObservedMatrix, holdout
from rslm.data.prepared.opened import open_prepared
from rslm.data.prepared.write import prepare
from rslm.datasets import make_ratings
from rslm.distributed import DistributedMatrix
from rslm.distributed.cluster import BRANCHES
from rslm.losses import Square
from rslm.measurements import Entries

USERS, ITEMS, RANK = 480_189, 17_770, 10
LIMIT = 2 << 30
PER_TASK = 2.3e-3  # seconds a shard, of 128 on this machine, where workers and scheduler share two cores


def own_memory() -> int:
    """Bytes that are this process's own; what is mapped from files can be read again at any time, and is not."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("RssAnon")))


class Watch:
    """The largest memory of the process while something runs."""

    def __enter__(self) -> Watch:
        self.before = self.most = own_memory()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            self.most = max(self.most, own_memory())

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def generate(path: Path, ratings: int) -> None:
    """Lines in an order that is no help."""
    import polars as pl

    made = make_ratings(USERS, ITEMS, ratings, random_state=0, dtype=np.float32).data
    order = np.random.default_rng(0).permutation(ratings)
    table = {"user": made.rows_of_entries()[order], "film": made.index[order], "rating": made.values[order].round(1)}
    pl.DataFrame(table).write_csv(path)


def preparing(table: Path, folder: Path) -> dict[str, Any]:
    manifest = prepare(table, folder, memory="1GB", force=True)
    return {"entries": manifest.entries, "shards": len(manifest.shards)}


def fitting(table: Path, folder: Path) -> dict[str, Any]:
    train, test = holdout(open_prepared(folder), 0.01, 0)
    model = MatrixCompletion(RANK, C=1.5e4, effects=None, weighting=0.5, random_state=0, tol=1e-3).fit(train)
    rows, error = test.rows_of_entries(), []
    for start in range(0, len(test), 1 << 17):
        at = slice(start, start + (1 << 17))
        found = np.einsum("ij,ij->i", model.row_factors_[rows[at]], model.col_factors_[test.index[at]])
        error.append(((found - test.values[at]) ** 2).sum())
    evaluations, products = (int(model.history_[k][-1]) for k in ("evaluations", "hessian_products"))
    facts = {"held-out RMSE": float(np.sqrt(sum(error) / len(test))), "outcome": model.outcome_}
    return facts | {"evaluations": evaluations, "Hessian products": products}


def evaluating(table: Path, folder: Path) -> dict[str, Any]:
    return evaluation(open_prepared(folder))


def evaluating_in_memory(table: Path, folder: Path) -> dict[str, Any]:
    data = open_prepared(folder)
    data = ObservedMatrix(data.indptr, np.array(data.index), np.array(data.values), data.shape)
    return evaluation(data)


def evaluation(data: ObservedMatrix) -> dict[str, Any]:
    """Wall seconds, with the cache warm."""
    objective = Objective(Problem(Square(), Entries.of_transposed(data), C=1e3))
    U = np.random.default_rng(0).standard_normal((data.shape[1], RANK))
    U /= np.linalg.norm(U)
    point = objective.evaluate(U)
    return {
        "evaluation s": best_seconds(lambda: objective.evaluate(U).release(), 4)[0],
        "Hessian product s": best_seconds(lambda: point.hessian_product(U), 4)[0],
    }


def on_cluster(workers: int) -> Callable[[Path, Path], dict[str, Any]]:
    """Two threads in all. What is left of the time when there is next to nothing to compute is what Dask takes."""

    def task(table: Path, folder: Path) -> dict[str, Any]:
        from distributed import Client, LocalCluster

        from rslm.distributed import distribute

        with (
            LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=workers,
                threads_per_worker=2 // workers,
                processes=True,
                dashboard_address=":0",
                memory_limit=0,
            ) as cluster,
            Client(cluster) as client,  # type: ignore[no-untyped-call]
        ):
            little = make_ratings(2_000, ITEMS, 20_000, random_state=0).data
            facts: dict[str, Any] = {}
            for data, name in ((distribute(folder, client), ""), (distribute(little, client), "empty ")):
                facts |= {f"{name}{what}": value for what, value in of_objective(data).items()}
        return facts

    return task


def of_objective(data: DistributedMatrix) -> dict[str, Any]:
    """Least wall seconds of what a fit asks for, and what travels."""
    objective = Objective(Problem(Square(), data.measurement(), C=1e3))
    U = np.random.default_rng(0).standard_normal((data.shape[1], RANK))
    U /= np.linalg.norm(U)
    point, cluster = objective.evaluate(U), data.cluster
    before = cluster.bytes_sent, cluster.bytes_received
    objective.evaluate(U).release()
    sent, received = cluster.bytes_sent - before[0], cluster.bytes_received - before[1]

    def preconditioner() -> None:
        point.__dict__.pop("preconditioner", None)
        _ = point.preconditioner

    return {
        "evaluation s": best_seconds(lambda: objective.evaluate(U).release(), 4)[0],
        "Hessian product s": best_seconds(lambda: point.hessian_product(U), 4)[0],
        "preconditioner s": best_seconds(preconditioner, 3)[0],
        "MB sent": sent / 1e6,
        "MB received": received / 1e6,
    }


TASKS: dict[str, tuple[Callable[[Path, Path], dict[str, Any]], bool]] = {
    "prepare": (preparing, True),
    "fit": (fitting, True),
    "evaluate": (evaluating, True),
    "evaluate in memory": (evaluating_in_memory, False),
    "one worker": (on_cluster(1), False),
    "two workers": (on_cluster(2), False),
}


@dataclass(frozen=True)
class Machines:
    """A cluster, by what an evaluation costs there."""

    workers: int
    threads: int  #: of every worker
    per_entry: float  #: seconds of one thread
    latency: float  #: seconds of a question without anything to compute or to send
    per_task: float  #: seconds of the scheduler for every worker
    bandwidth: float  #: bytes a second between two of them

    def evaluation(self, entries: float, features: float) -> dict[str, float]:
        """Seconds for the entries, for U on its way to all workers, and for the sums on theirs back, in a tree."""
        U = 8.0 * features * RANK
        down = max(math.ceil(math.log2(self.workers)), 1)  # whoever has it passes it on
        levels = max(math.ceil(math.log(self.workers, BRANCHES)), 1)
        parts = {
            "computing s": entries * self.per_entry / (self.workers * self.threads),
            "waiting s": self.latency + self.workers * self.per_task,
            "travelling s": (down + levels * min(self.workers, BRANCHES)) * U / self.bandwidth,
        }
        return parts | {"evaluation s": sum(parts.values())}


def model(measured: dict[str, dict[str, Any]], entries: int) -> list[dict[str, Any]]:
    """What the measurements on one machine say of each other, and of 100 machines and 10 billion entries."""
    here = measured["evaluate in memory"]["evaluation s"]
    found = []
    for workers, name in ((1, "one worker"), (2, "two workers")):
        empty = measured[name]["empty evaluation s"]  # which has travelled too
        said = Machines(workers, 2 // workers, 2.0 * here / entries, empty, 0.0, math.inf).evaluation(entries, ITEMS)
        found.append({"task": f"model of {name}", "measured s": measured[name]["evaluation s"]} | said)
    for features in (1e5, 1e6):
        there = Machines(100, 16, 2.0 * here / entries, 0.015, PER_TASK, 10e9 / 8)
        about = {"task": "model of 100 machines", "entries": 1e10, "features": features}
        found.append(about | there.evaluation(1e10, features))
    return found


def run(name: str, table: Path, folder: Path) -> None:
    """One task, in this process, whose memory is limited if it is to be."""
    task, limited = TASKS[name]
    if limited:
        limit = own_memory() + LIMIT
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    began = time.perf_counter()
    with Watch() as watch:
        facts = task(table, folder)
    seconds = time.perf_counter() - began
    print(json.dumps({"task": name, "s": seconds, "memory GB": (watch.most - watch.before) / 1e9} | facts))


def main() -> None:
    if sys.argv[1:2] == ["--task"]:
        return run(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
    ratings = int(float(sys.argv[1])) if len(sys.argv) > 1 else 100_000_000
    home = Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.gettempdir())
    table, folder = home / f"ratings-{ratings}.csv", home / f"ratings-{ratings}"
    if not table.exists():
        generate(table, ratings)
    rows = []
    for name in TASKS:
        ended = subprocess.run(
            [sys.executable, __file__, "--task", name, str(table), str(folder)], capture_output=True, text=True
        )
        if ended.returncode:
            rows.append({"task": name, "failed": ended.stderr.strip().splitlines()[-1]})
            continue
        rows.append(json.loads(ended.stdout.splitlines()[-1]))
    measured = {row["task"]: row for row in rows}
    if all("evaluation s" in measured[name] for name in ("evaluate in memory", "one worker", "two workers")):
        rows += model(measured, ratings)
    return report("scale", rows, entries=ratings, table_gb=table.stat().st_size / 1e9)


if __name__ == "__main__":
    main()
