"""Tasks that are distributed over the workers of a cluster, with their rows of features."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from rslm.distributed.cluster import Build, Client, Cluster, Future, check_versions, threads_here
from rslm.distributed.matrix import cuts_of
from rslm.distributed.remote_term import Part, Shards
from rslm.distributed.shard import Shard
from rslm.measurements import Tasks
from rslm.runtime.types import Floats

Arguments = tuple[Any, ...]


def distribute_tasks(tasks: Tasks, client: Client) -> Shards:
    """Distribute tasks over the workers of a client, with about as many observations for each.

    Parameters
    ----------
    tasks : Tasks
    client : distributed.Client
    """
    check_versions(client)
    indptr = tasks.columns.indptr
    cuts = cuts_of(indptr, len(client.scheduler_info(n_workers=-1)["workers"]))
    cluster = Cluster(client, [_sent(tasks, int(a), int(b)) for a, b in pairwise(cuts)])
    parts = [Part(slice(int(a), int(b)), slice(int(indptr[a]), int(indptr[b]))) for a, b in pairwise(cuts)]
    return Shards(cluster, tasks.shape, parts, tasks)


def _sent(tasks: Tasks, first: int, last: int) -> Build:
    def build(client: Client, worker: str) -> Future:
        (part,) = client.scatter([_part(tasks, first, last)], workers=[worker], hash=False)
        return client.submit(shard_of_tasks, part, pure=False, workers=[worker], allow_other_workers=True)

    return build


def _part(tasks: Tasks, first: int, last: int) -> Arguments:
    """The rows of some tasks, and the numbers that must be the same for all tasks."""
    columns = tasks.columns
    at = slice(int(columns.indptr[first]), int(columns.indptr[last]))
    rows, index = np.unique(columns.index[at], return_inverse=True)
    mean: Floats = tasks.features.mean
    X, indptr = tasks.features.X[rows], columns.indptr[first : last + 1] - at.start
    weights = None if tasks.weights is None else tasks.weights[at]
    return X, indptr, index, tasks.values[at], tasks.intercept, mean, tasks.narrow, weights


def shard_of_tasks(part: Arguments) -> Shard:
    """A shard of tasks that were sent."""
    return Shard(Tasks.of_part(*part), (shard_of_tasks, (part,)), threads_here())
