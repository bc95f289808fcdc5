"""Tables of entries that consist of several parts: Parquet files and Dask DataFrames.

Rows and columns are numbered in the order of their ids. Every part counts its ids; from all counts the rows are cut
into shards with about as many entries each; every shard picks its rows from all parts. The entries stay on the workers;
only ids and counts come to this process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data.checks import real_numbers
from rslm.data.convert import compress
from rslm.data.files.locate import PARQUET, beginning
from rslm.data.files.names import roles_by_name
from rslm.data.files.roles import column_of
from rslm.data.files.tools import polars
from rslm.data.labels import as_ids, show_id
from rslm.data.weights import check_weights, compress_weighted
from rslm.distributed.cluster import Build, Client, Cluster, Future
from rslm.distributed.matrix import Arrays, Aside, DistributedMatrix, cuts_of, left_of, shard_of_arrays
from rslm.distributed.shard import Shard
from rslm.runtime.types import Indices64

ROWS = 5_000_000  # lines of a file that are read at a time

Ids = NDArray[Any]
Triplets = tuple[Ids, Ids, NDArray[Any], NDArray[Any] | None]  # the last one: weights, if there are any
Names = tuple[Any, ...]  # of the columns: row, column, value and perhaps weight
Load = Callable[[Client], list[Future]]  # the parts of the table as futures of triplets


def from_table(frame: Any, client: Client, aside: Aside | None, weights: Any = None) -> DistributedMatrix:
    """The matrix in a Dask DataFrame with one entry per line; `weights` is the column of its weights."""
    labels = {str(c): c for c in frame.columns}
    names = tuple(labels[name] for name in _roles(list(labels), "the DataFrame", weights))
    parts = frame[list(names)].to_delayed()

    def load(client: Client) -> list[Future]:
        return [client.submit(triplets_of, client.compute(part), names, pure=False) for part in parts]

    return _shared_out(client, load, aside)


def from_parquet(
    path: str | os.PathLike[str], client: Client, aside: Aside | None, weights: str | None = None
) -> DistributedMatrix:
    """The matrix in a Parquet file with one entry per line, or in a folder of such files."""
    given = Path(path).resolve()
    files = sorted(given.glob("*.parquet")) if given.is_dir() else [given]
    if not files or not beginning(files[0]).startswith(PARQUET):
        raise ValueError(
            f"workers cannot read {os.fspath(path)!r} in parts: it is neither prepared data nor Parquet. Prepare it in "
            f"a folder that all workers can read: rslm prepare {os.fspath(path)} FOLDER"
        )
    pl = polars()
    names = _roles(list(pl.read_parquet_schema(files[0])), str(path), weights)
    for file in files[1:]:
        if missing := set(names) - set(pl.read_parquet_schema(file)):
            raise ValueError(f"{file} has no column {min(missing)!r}, which {files[0].name} has")
    lengths = [int(pl.scan_parquet(file).select(pl.len()).collect().item()) for file in files]
    pieces = [(str(f), k) for f, n in zip(files, lengths, strict=True) for k in range(0, n, ROWS)]
    return _shared_out(client, lambda c: [c.submit(read_part, *piece, names, pure=False) for piece in pieces], aside)


def _roles(names: list[str], table: str, weights: Any) -> Names:
    if weights is None:
        return roles_by_name(names, table)
    weight = column_of(names, str(weights), table)
    return *roles_by_name([name for name in names if name != weight], table), weight


def read_part(file: str, start: int, names: Names) -> Triplets:
    """Some lines of a Parquet file."""
    frame = polars().scan_parquet(file).select(names).slice(start, ROWS).collect()
    return triplets_of(frame, names)


def triplets_of(frame: Any, names: Names) -> Triplets:
    """Row ids, column ids, values and weights of a frame of Polars or pandas."""
    rows, cols, *numbers = (frame[name].to_numpy() for name in names)
    values, *weights = (real_numbers(array, name) for array, name in zip(numbers, names[2:], strict=True))
    if not np.isfinite(values).all():
        raise ValueError(f"{names[2]} has missing or infinite values; remove these lines")
    return _ids(rows, names[0]), _ids(cols, names[1]), values, weights[0].astype(np.float64) if weights else None


def _ids(given: Ids, name: str) -> Ids:
    """Ids as int64 or fixed-width text, so that their order is the same on all workers."""
    ids = as_ids(given, name)
    if ids.dtype.kind in "iu":
        if ids.size and ids.max() > np.iinfo(np.int64).max:
            raise ValueError(f"{name} has the id {ids.max()}, which is too large; write such ids as text")
        return ids.astype(np.int64)
    if ids.dtype.kind != "U" and not all(isinstance(i, str) for i in ids.tolist()):
        raise ValueError(f"{name} has ids that are missing, or neither whole numbers nor text")
    if any(i.endswith("\0") for i in ids.tolist()):  # NumPy would drop it
        raise ValueError(f"{name} has an id that ends in a zero byte; remove the byte")
    return ids.astype(str)


def _shared_out(client: Client, load: Load, aside: Aside | None) -> DistributedMatrix:
    parts = load(client)
    counted = client.gather([client.submit(count_ids, part, pure=False) for part in parts])
    counted = [c for c in counted if len(c[0])]
    if not counted:
        raise ValueError("Nothing is observed: the table has no lines. Give at least one entry.")
    weighted = not all(np.isnan(total) for *_, total in counted)
    if weighted and not np.nansum([total for *_, total in counted]) > 0:
        raise ValueError("all weights are zero, so nothing is observed. Give at least one entry a positive weight.")
    for at, side in ((0, "row"), (2, "column")):
        if len({c[at].dtype.kind for c in counted}) > 1:
            raise ValueError(f"the {side} ids are numbers in one part of the table and text in another; use one kind")
    row_ids, counts = _merged([(rows, counts) for rows, counts, *_ in counted])
    col_ids = np.unique(np.concatenate([cols for _, _, cols, _ in counted]))
    indptr: Indices64 = np.concatenate([[0], np.cumsum(counts)])
    cuts = cuts_of(indptr, len(client.scheduler_info(n_workers=-1)["workers"]))
    loaded: list[Future] = parts  # kept only while shards are built; for a shard that is lost they are loaded again
    builds = [_build(lambda c: loaded or load(c), row_ids[a:b], col_ids, int(a), aside) for a, b in pairwise(cuts)]
    cluster = Cluster(client, builds)
    cluster.wait()
    loaded.clear()
    if aside is not None or weighted:  # entries of weight 0 are left out
        indptr = left_of(cluster)
    return DistributedMatrix(cluster, indptr, len(col_ids), cuts, _named(row_ids), _named(col_ids))


def _named(ids: Ids) -> Ids:
    return ids.astype(object) if ids.dtype.kind == "U" else ids


def _merged(counted: list[tuple[Ids, Indices64]]) -> tuple[Ids, Indices64]:
    """All ids in order, and how often each occurs."""
    ids, number = np.unique(np.concatenate([ids for ids, _ in counted]), return_inverse=True)
    counts = np.zeros(len(ids), dtype=np.int64)
    np.add.at(counts, number, np.concatenate([counts for _, counts in counted]))
    return ids, counts


def _build(load: Load, rows: Ids, cols: Ids, first: int, aside: Aside | None) -> Build:
    def build(client: Client, worker: str) -> Future:
        ids = client.scatter([(rows, cols)], hash=False)[0]
        picked = [client.submit(pick, part, ids, pure=False) for part in load(client)]
        return client.submit(
            shard_of_parts, picked, ids, first, aside, pure=False, workers=[worker], allow_other_workers=True
        )

    return build


def count_ids(part: Triplets) -> tuple[Ids, Indices64, Ids, float]:
    """Row ids and how often each occurs, column ids, and the sum of the weights, NaN where there are none."""
    rows, counts = np.unique(part[0], return_counts=True)
    if part[3] is not None:
        _check_weights(part)
    return rows, counts, np.unique(part[1]), float("nan") if part[3] is None else float(part[3].sum())


def _check_weights(part: Triplets) -> None:
    rows, cols, _, weights = part
    assert weights is not None
    if len(weights) and weights.any():  # that all are 0 is an error only if it is so in all parts
        check_weights(weights, lambda k: f"row {show_id(rows, k)}, column {show_id(cols, k)}")


def pick(part: Triplets, ids: tuple[Ids, Ids]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], Any]:
    """Positions, values and weights of the entries in the rows of a shard, without those of weight 0."""
    rows, cols = ids
    if not len(part[0]):  # ids of an empty part have no type
        return np.zeros(0, np.int64), np.zeros(0, np.int64), part[2], part[3]
    mine = (part[0] >= rows[0]) & (part[0] <= rows[-1])
    if part[3] is not None:
        mine &= part[3] > 0
    weights = None if part[3] is None else part[3][mine]
    return np.searchsorted(rows, part[0][mine]), np.searchsorted(cols, part[1][mine]), part[2][mine], weights


def shard_of_parts(
    parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any], Any]],
    ids: tuple[Ids, Ids],
    first: int,
    aside: Aside | None,
) -> Shard:
    """A shard, put together from its entries in all parts."""
    i, j, values = (np.concatenate([part[k] for part in parts]) for k in range(3))
    weights = None if parts[0][3] is None else np.concatenate([part[3] for part in parts])
    rows, cols = ids
    shape = len(rows), len(cols)
    try:
        arrays = _compressed(i.astype(np.int32), j.astype(np.int32), values, weights, shape, _named(rows), _named(cols))
    except ValueError as error:  # its advice on repeated entries does not apply here
        found = str(error).split(" Give every pair")[0]
        raise ValueError(f"{found} Give every pair once: group the table by row and column first.") from None
    return shard_of_arrays(arrays, len(cols), first, aside)


def _compressed(
    i: NDArray[np.int32],
    j: NDArray[np.int32],
    values: NDArray[Any],
    weights: Any,
    shape: tuple[int, int],
    row_ids: Ids,
    col_ids: Ids,
) -> Arrays:
    if weights is None or not len(weights):  # a shard may have lines of weight 0 only
        return *compress(i, j, values, shape, "error", row_ids, col_ids), weights
    return compress_weighted(i, j, values, weights, shape, "error", row_ids, col_ids)
