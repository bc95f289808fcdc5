"""Clusters of this machine, and data for them."""

import os
import signal
from contextlib import contextmanager

import numpy as np
from distributed import Client, LocalCluster


@contextmanager
def local(workers, processes):
    settings = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(n_workers=workers, processes=processes, **settings) as cluster, Client(cluster) as client:
        client.scheduler_comm.interval = 0.001  # seconds between two messages; 0.01 would be half of the time of a fit
        yield client


def kill_one(client):
    """Kill a worker that is a process; its process id."""
    found = next(iter(client.run(os.getpid).values()))
    os.kill(found, getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows has the second one only, which ends it at once
    return found


def regressions(d, T, n, common=0.0, slope=1.0):
    """Features, targets and tasks of regressions that share `common` coefficients and have intercepts slope · t."""
    rng = np.random.default_rng(0)
    X, tasks = rng.standard_normal((n, d)) + 0.5, np.concatenate([np.arange(T), rng.integers(0, T, n - T)])
    B = common * rng.standard_normal((d, 1)) + rng.standard_normal((d, 2)) @ rng.standard_normal((2, T))
    return X, np.einsum("ij,ji->i", X, B[:, tasks]) + 0.3 * rng.standard_normal(n) + slope * tasks, tasks
