"""Fits of MovieLens-1M by two worker processes of a Dask cluster, over TCP, beside those of one process; and again with
a worker that is killed (-9) in the middle.

python benchmarks/cluster.py
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

from common import SHARED, needed, report
from rslm import MatrixCompletion, ObservedMatrix
from rslm.distributed import distribute

FITS: dict[str, dict[str, Any]] = {
    "square": {"rank": 10, "C": 1e3, "weighting": 0.5},
    "huber": {"rank": 10, "C": 300.0, "loss": "huber:0.5"},
    "absolute": {"rank": 5, "C": 50.0, "loss": "absolute"},
    "bounds 1 to 5": {"rank": 5, "C": 300.0, "bounds": (1, 5), "max_iter": 40},
}


def fit(settings: dict[str, Any], X: Any, client: Any = None) -> tuple[MatrixCompletion, float]:
    model = MatrixCompletion(random_state=0, tol=1e-4, effects=None, **settings)
    began = time.perf_counter()
    return model.fit(X, client=client), time.perf_counter() - began


def apart(a: MatrixCompletion, b: MatrixCompletion) -> float:
    """How far the histories of two fits are, relative to the first; infinite if one is longer."""
    here, there = a.history_["objective"], b.history_["objective"]
    return float(np.max(np.abs(here - there) / here)) if len(here) == len(there) else np.inf


def main() -> None:
    file = np.load(needed(SHARED / "data" / "ml-1m" / "ml-1m.npz"))
    values = file["value"].astype(np.float64)
    data = ObservedMatrix.from_triplets(file["col"], file["row"], values, shape=(6040, 3706))
    rows = [compared(name, data) for name in FITS]
    report("cluster", rows)


def compared(name: str, data: ObservedMatrix) -> dict[str, Any]:
    """One fit here, one on a cluster, and one on a cluster that loses a worker, which need not come back."""
    settings = FITS[name]
    local, seconds = fit(settings, data)
    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as cluster,
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        distribute(data, client).cluster.wait()  # so that workers have started
        matrix = distribute(data, client)
        there, on_cluster = fit(settings, matrix, client)
        questions = matrix.cluster.questions
        pid = next(iter(client.run(os.getpid).values()))
        threading.Timer(0.5 * on_cluster, os.kill, (pid, signal.SIGKILL)).start()
        hurt, with_loss = fit(settings, data, client)
    return {
        "loss": name,
        "iterations": local.n_iter_,
        "one process s": seconds,
        "two workers s": on_cluster,
        "ms more a question": 1e3 * (on_cluster - seconds) / questions,
        "histories apart": apart(local, there),
        "killed s": with_loss,
        "histories apart when killed": apart(local, hurt),
    }


if __name__ == "__main__":
    main()
