"""A data matrix whose rows are distributed over the workers of a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rslm.data import ObservedMatrix
from rslm.data.prepared.manifest import is_prepared
from rslm.data.prepared.opened import open_prepared
from rslm.data.weights import none_if_ones
from rslm.distributed.cluster import Build, Client, Cluster, Future, check_versions, threads_here
from rslm.distributed.recipe import Map
from rslm.distributed.remote_term import Part, Shards
from rslm.distributed.shard import Convert, Held, Ranked, Shard, mixed
from rslm.kernels import Columns
from rslm.measurements import Entries
from rslm.runtime.types import Floats, Indices64
from rslm.structures import Box
from rslm.structures.box import ObservedBeyond, worst

Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any] | None]  # indptr, index, values and weights
Aside = tuple[float, int]  # the fraction of the entries that is held out, and a seed


class HeldOut(NamedTuple):
    """The quality of predictions of held-out entries, and that of the simplest guess for comparison."""

    entries: int
    rmse: float
    rmse_of_mean: float
    accuracy: float  #: of the sign
    accuracy_of_majority: float


class DistributedMatrix:
    """An n_samples × n_features matrix whose observed entries are on workers; `distribute` makes one.

    Parameters
    ----------
    cluster : Cluster
    indptr : array of n_samples + 1
        Where the entries of every row begin.
    n_features : int
    cuts : array
        Shard k has the rows cuts[k] to cuts[k + 1] − 1.
    row_ids, col_ids : arrays, optional
    """

    def __init__(
        self,
        cluster: Cluster,
        indptr: Indices64,
        n_features: int,
        cuts: Indices64,
        row_ids: NDArray[Any] | None = None,
        col_ids: NDArray[Any] | None = None,
    ) -> None:
        self.cluster, self.indptr, self.row_ids, self.col_ids = cluster, indptr, row_ids, col_ids
        self.shape = len(indptr) - 1, n_features
        self.parts = [Part(slice(int(a), int(b)), slice(int(indptr[a]), int(indptr[b]))) for a, b in pairwise(cuts)]

    def __len__(self) -> int:
        return int(self.indptr[-1])

    def __repr__(self) -> str:
        n, m = self.shape
        return f"DistributedMatrix {n} × {m}, {len(self)} observed, {len(self.parts)} shards"

    def measurement(self, *maps: Map, alpha0: float | None = None) -> Shards:
        """The entries of the transposed matrix, whose columns are samples, as the `data` of a `Problem`.

        `maps` are functions that are applied to the values, in this order. `alpha0` is the weight of zeros at all
        entries, as in `AllEntries`.
        """
        return Shards(self.cluster, (self.shape[1], self.shape[0]), self.parts, maps=maps, alpha0=alpha0)

    def converted(self, convert: Convert) -> DistributedMatrix:
        """A matrix of the same shape with other entries: workers `convert` the rows that they hold.

        Parameters
        ----------
        convert : function that can be pickled, from an ObservedMatrix to another one of the same shape
        """
        loaded = list(self.cluster.shards)  # kept only while shards are converted; one that is lost is built again
        builds = []
        for k, (build, part) in enumerate(zip(self.cluster.builds, self.parts, strict=True)):
            rows = part.columns
            row_ids = np.arange(rows.start, rows.stop) if self.row_ids is None else self.row_ids[rows]
            builds.append(_converted(build, loaded, k, convert, (row_ids, self.col_ids)))
        cluster = Cluster(self.cluster.client, builds)
        cluster.wait()
        loaded.clear()
        cuts = np.array([0, *(part.columns.stop for part in self.parts)])
        return DistributedMatrix(cluster, starts_of(cluster), self.shape[1], cuts, self.row_ids, self.col_ids)

    def row_counts(self) -> Indices64:
        """How many entries every row has."""
        return np.diff(self.indptr)

    def col_counts(self) -> Indices64:
        """How many entries every column has."""
        return self._col_counts

    @cached_property
    def _col_counts(self) -> Indices64:
        counts: Indices64 = self.cluster.total("row_counts")
        return counts

    @cached_property
    def largest(self) -> float:
        """The largest absolute value."""
        return float(max(self.cluster.each("largest")))

    @cached_property
    def positives(self) -> int:
        """How many values are above 0."""
        return int(self.cluster.total("positives"))

    def has(self, value: float) -> bool:
        """Whether an entry has this `value`."""
        return any(self.cluster.each("has", value))

    def beyond(self, box: Box) -> ObservedBeyond | None:
        """Observed values that violate the bounds of a `box`; None if there are none."""
        each = self.cluster.each("beyond", own=[(box.part(part.columns),) for part in self.parts])
        pairs = zip(each, self.parts, strict=True)
        return worst(f if f is None else f._replace(row=f.row + part.columns.start) for f, part in pairs)

    def held_out(self, row_factors: Floats, col_factors: Floats) -> HeldOut:
        """How well W = row_factors @ col_factors.T predicts the held-out entries, by their weights if they have any.

        Parameters
        ----------
        row_factors, col_factors : arrays of shape (n_samples, rank) and (n_features, rank)

        Returns
        -------
        HeldOut
            entries, rmse, rmse_of_mean, accuracy, accuracy_of_majority
        """
        own = [(row_factors[part.columns],) for part in self.parts]
        sums = np.sum(self.cluster.each("held_out", col_factors, own=own), axis=0)
        weight, of_values, of_positives = self.cluster.total("sums_of_values")
        mean = of_values / weight
        entries, count, squares, right, positive, total, total_squares = (float(s) for s in sums)
        if entries == 0:
            raise ValueError(f"none of the {len(self)} entries was held out; use a larger holdout")
        of_mean = total_squares - 2.0 * mean * total + count * mean**2
        majority = positive if of_positives > weight / 2 else count - positive
        rmse, rmse_of_mean = (float(np.sqrt(max(s, 0.0) / count)) for s in (squares, of_mean))
        return HeldOut(int(entries), rmse, rmse_of_mean, right / count, majority / count)

    def ranked(self, row_factors: Floats, col_factors: Floats, metric: Ranked) -> float:
        """A metric of how well W = row_factors @ col_factors.T ranks the held-out entries of every row.

        Parameters
        ----------
        row_factors, col_factors : as in `held_out`
        metric : Ranked
        """
        own = [(row_factors[part.columns], col_factors, metric) for part in self.parts]
        total, count = np.sum(self.cluster.each("ranked", own=own), axis=0)
        if count == 0:
            raise ValueError(f"none of the {len(self)} entries was held out; use a larger holdout")
        return float(total / count)

    def entries(self, at: Indices64) -> tuple[Indices64, Indices64, Floats]:
        """Row, column and value of some entries; `at` are their indices, in ascending order."""
        ends = [np.searchsorted(at, [part.entries.start, part.entries.stop]) for part in self.parts]
        pairs = zip(ends, self.parts, strict=True)
        found = self.cluster.each("entries", own=[(at[a:b] - part.entries.start,) for (a, b), part in pairs])
        rows = [rows + part.columns.start for (rows, _, _), part in zip(found, self.parts, strict=True)]
        return np.concatenate(rows), np.concatenate([c for _, c, _ in found]), np.concatenate([v for _, _, v in found])

    def some_rows(self, at: Indices64) -> ObservedMatrix:
        """Some rows, which are sent to this process; `at` are their positions, in ascending order."""
        ends = [np.searchsorted(at, [part.columns.start, part.columns.stop]) for part in self.parts]
        own = [(at[a:b] - part.columns.start,) for (a, b), part in zip(ends, self.parts, strict=True)]
        found = list(zip(*self.cluster.each("some_columns", own=own), strict=True))
        counts, index, values = (np.concatenate(parts) for parts in found[:3])
        ones = [np.ones(len(v)) if w is None else w for v, w in zip(found[2], found[3], strict=True)]
        weights = None if all(w is None for w in found[3]) else none_if_ones(np.concatenate(ones))
        indptr: Indices64 = np.concatenate([[0], np.cumsum(counts)])
        shape = len(at), self.shape[1]
        return ObservedMatrix(indptr, index, values, shape, col_ids=self.col_ids, weights=weights)


def distribute(
    X: Any, client: Client, *, holdout: float = 0.0, seed: int = 0, weights: str | None = None
) -> DistributedMatrix:
    """Distribute the rows of a data matrix over the workers of a client, with about as many entries for each.

    Parameters
    ----------
    X : folder of prepared data, Parquet files, Dask DataFrame, ObservedMatrix, or data that can be made into one
        A folder, or Parquet files, must be on storage that all workers can read, because they read it themselves. The
        columns of a DataFrame, or of Parquet files, are row, column and value of the entries, as in a text file. All
        other data are sent from this process.
    client : distributed.Client
    holdout : float, default=0.0
        Fraction of the entries that workers hold out, so that `held_out` can compare predictions with them.
    seed : int, default=0
        Decides which entries are held out, independently of how rows are distributed.
    weights : name of a column, or its number from 1, optional
        The weights of the entries in a DataFrame or in Parquet files. Prepared data and an ObservedMatrix have their
        own.
    """
    check_versions(client)
    if not 0 <= holdout < 1:
        raise ValueError(f"holdout must be at least 0 and less than 1; got {holdout!r}")
    aside = (float(holdout), int(seed)) if holdout > 0 else None
    table = hasattr(X, "map_partitions") and hasattr(X, "to_delayed")
    if weights is not None and not table and (not isinstance(X, str | os.PathLike) or is_prepared(X)):
        raise ValueError(
            f"weights={weights!r} names a column of a table, but these data are no table; prepare them with weights, "
            "or give ObservedMatrix.weighted(…)"
        )
    if isinstance(X, DistributedMatrix):
        if aside is not None or X.cluster.client is not client:
            raise ValueError("these data are distributed already; give the original data, or the same client")
        return X
    if table:
        from rslm.distributed.table import from_table

        return from_table(X, client, aside, weights)
    if isinstance(X, str | os.PathLike):
        if not is_prepared(X):
            from rslm.distributed.table import from_parquet

            return from_parquet(X, client, aside, weights)
        folder, data = str(Path(X).resolve()), open_prepared(X)
        return _cut(data, client, lambda first, last: _submitted(shard_of_folder, folder, first, last, aside), aside)
    data = ObservedMatrix.from_any(X)
    return _cut(data, client, lambda first, last: _sent(data, first, last, aside), aside)


def cuts_of(indptr: Indices64, count: int) -> Indices64:
    """Where to cut rows into about `count` parts with about as many entries each."""
    wanted = np.linspace(0, int(indptr[-1]), min(count, len(indptr) - 1) + 1)[1:-1]
    return np.unique(np.concatenate([[0], np.searchsorted(indptr, wanted), [len(indptr) - 1]])).astype(np.int64)


def _cut(
    data: ObservedMatrix, client: Client, build: Callable[[int, int], Build], aside: Aside | None
) -> DistributedMatrix:
    cuts = cuts_of(data.indptr, len(client.scheduler_info(n_workers=-1)["workers"]))
    builds = [build(int(a), int(b)) for a, b in pairwise(cuts)]
    cluster = Cluster(client, builds)
    indptr = data.indptr if aside is None else left_of(cluster)
    return DistributedMatrix(cluster, indptr, data.shape[1], cuts, data.row_ids, data.col_ids)


def starts_of(cluster: Cluster) -> Indices64:
    """Where the entries of every row begin."""
    return np.concatenate([[0], np.cumsum(np.concatenate(cluster.each("column_counts")))])


def left_of(cluster: Cluster) -> Indices64:
    """Where the entries of every row begin, without those that are held out."""
    indptr = starts_of(cluster)
    if indptr[-1] == 0:
        raise ValueError("no entry is left to fit; use a smaller holdout")
    return indptr


def _converted(build: Build, loaded: list[Future], k: int, convert: Convert, ids: tuple[Any, Any]) -> Build:
    def converted(client: Client, worker: str) -> Future:
        (own,) = client.scatter([ids], hash=False)
        shard = loaded[k] if loaded else build(client, worker)
        return _submitted(shard_converted, shard, convert, own)(client, worker)

    return converted


def shard_converted(shard: Shard, convert: Convert, ids: tuple[Any, Any]) -> Shard:
    """A shard with other entries of the same rows."""
    data, held = shard.converted(convert, *ids)
    return Shard(data, (shard_converted_again, (*shard.rebuild, convert, ids)), shard.n_threads, held)


def shard_converted_again(build: Callable[..., Shard], args: tuple[Any, ...], convert: Convert, ids: Any) -> Shard:
    """The same shard in another process."""
    return shard_converted(build(*args), convert, ids)


def _submitted(function: Callable[..., Shard], *args: Any) -> Build:
    def build(client: Client, worker: str) -> Future:
        return client.submit(function, *args, pure=False, workers=[worker], allow_other_workers=True)

    return build


def _sent(data: ObservedMatrix, first: int, last: int, aside: Aside | None) -> Build:
    def build(client: Client, worker: str) -> Future:
        (arrays,) = client.scatter([_rows(data, first, last)], workers=[worker], hash=False)
        return _submitted(shard_of_arrays, arrays, data.shape[1], first, aside)(client, worker)

    return build


def _rows(data: ObservedMatrix, first: int, last: int) -> Arrays:
    at = slice(int(data.indptr[first]), int(data.indptr[last]))
    # Copies, because the originals may be memory-mapped files.
    weights = None if data.weights is None else np.array(data.weights[at])
    return data.indptr[first : last + 1] - at.start, np.array(data.index[at]), np.array(data.values[at]), weights


def shard_of_arrays(arrays: Arrays, n_features: int, first: int, aside: Aside | None) -> Shard:
    """A shard of rows that were sent; the number of the first one is `first`."""
    (indptr, index, values, weights), held = (arrays, None) if aside is None else set_aside(arrays, first, aside)
    data = Entries.of_columns(Columns(indptr, index, n_features), values, weights)
    return Shard(data, (shard_of_arrays, (arrays, n_features, first, aside)), threads_here(), held)


def shard_of_folder(folder: str, first: int, last: int, aside: Aside | None) -> Shard:
    """A shard of rows of prepared data, which the worker reads itself."""
    if not is_prepared(folder):
        raise FileNotFoundError(f"a worker finds no prepared data at {folder}; put it where all workers can read it")
    data = open_prepared(folder)
    shard = shard_of_arrays(_rows(data, first, last), data.shape[1], first, aside)
    shard.rebuild = shard_of_folder, (folder, first, last, aside)
    return shard


def set_aside(arrays: Arrays, first: int, aside: Aside) -> tuple[Arrays, Held]:
    """Entries to fit, and entries to hold out, chosen by a hash of their positions."""
    indptr, index, values, weights = arrays
    fraction, seed = aside
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    held = mixed(rows.astype(np.uint64) + np.uint64(first), index, np.uint64(seed)) < np.uint64(fraction * 2.0**64)
    kept = np.concatenate([[0], np.cumsum(~held)])[indptr]
    left, aside_weights = (None, None) if weights is None else (weights[~held], weights[held])
    fitted = kept, index[~held], values[~held], left
    return fitted, (rows[held], index[held].astype(np.int64), values[held], aside_weights)
