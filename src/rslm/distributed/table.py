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
from rslm.data.files.roles import roles_by_name
from rslm.data.files.tools import polars
from rslm.data.labels import as_ids
from rslm.distributed.cluster import Build, Client, Cluster, Future
from rslm.distributed.matrix import Aside, DistributedMatrix, cuts_of, left_of, shard_of_arrays
from rslm.distributed.shard import Shard
from rslm.runtime.types import Indices64

ROWS = 5_000_000  # lines of a file that are read at a time

Ids = NDArray[Any]
Triplets = tuple[Ids, Ids, NDArray[Any]]
Load = Callable[[Client], list[Future]]  # the parts of the table as futures of triplets


def from_table(frame: Any, client: Client, aside: Aside | None) -> DistributedMatrix:
    """The matrix in a Dask DataFrame with one entry per line."""
    labels = {str(c): c for c in frame.columns}
    row, col, value = (labels[name] for name in roles_by_name(list(labels), "the DataFrame"))
    names, parts = (row, col, value), frame[[row, col, value]].to_delayed()

    def load(client: Client) -> list[Future]:
        return [client.submit(triplets_of, client.compute(part), names, pure=False) for part in parts]

    return _shared_out(client, load, aside)


def from_parquet(path: str | os.PathLike[str], client: Client, aside: Aside | None) -> DistributedMatrix:
    """The matrix in a Parquet file with one entry per line, or in a folder of such files."""
    given = Path(path).resolve()
    files = sorted(given.glob("*.parquet")) if given.is_dir() else [given]
    if not files or not beginning(files[0]).startswith(PARQUET):
        raise ValueError(
            f"workers cannot read {os.fspath(path)!r} in parts: it is neither prepared data nor Parquet. Prepare it in "
            f"a folder that all workers can read: rslm prepare {os.fspath(path)} FOLDER"
        )
    pl = polars()
    names = roles_by_name(list(pl.read_parquet_schema(files[0])), str(path))
    for file in files[1:]:
        if missing := set(names) - set(pl.read_parquet_schema(file)):
            raise ValueError(f"{file} has no column {min(missing)!r}, which {files[0].name} has")
    lengths = [int(pl.scan_parquet(file).select(pl.len()).collect().item()) for file in files]
    pieces = [(str(f), k) for f, n in zip(files, lengths, strict=True) for k in range(0, n, ROWS)]
    return _shared_out(client, lambda c: [c.submit(read_part, *piece, names, pure=False) for piece in pieces], aside)


def read_part(file: str, start: int, names: tuple[str, str, str]) -> Triplets:
    """Some lines of a Parquet file."""
    frame = polars().scan_parquet(file).select(names).slice(start, ROWS).collect()
    return triplets_of(frame, names)


def triplets_of(frame: Any, names: tuple[str, str, str]) -> Triplets:
    """Row ids, column ids and values of a frame of Polars or pandas."""
    rows, cols, values = (frame[name].to_numpy() for name in names)
    found = real_numbers(values, names[2])
    if not np.isfinite(found).all():
        raise ValueError(f"{names[2]} has missing or infinite values; remove these lines")
    return _ids(rows, names[0]), _ids(cols, names[1]), found


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
    for at, side in ((0, "row"), (2, "column")):
        if len({c[at].dtype.kind for c in counted}) > 1:
            raise ValueError(f"the {side} ids are numbers in one part of the table and text in another; use one kind")
    row_ids, counts = _merged([(rows, counts) for rows, counts, _ in counted])
    col_ids = np.unique(np.concatenate([cols for _, _, cols in counted]))
    indptr: Indices64 = np.concatenate([[0], np.cumsum(counts)])
    cuts = cuts_of(indptr, len(client.scheduler_info(n_workers=-1)["workers"]))
    loaded: list[Future] = parts  # kept only while shards are built; for a shard that is lost they are loaded again
    builds = [_build(lambda c: loaded or load(c), row_ids[a:b], col_ids, int(a), aside) for a, b in pairwise(cuts)]
    cluster = Cluster(client, builds)
    cluster.wait()
    loaded.clear()
    if aside is not None:
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


def count_ids(part: Triplets) -> tuple[Ids, Indices64, Ids]:
    """Row ids and how often each occurs, and column ids."""
    rows, counts = np.unique(part[0], return_counts=True)
    return rows, counts, np.unique(part[1])


def pick(part: Triplets, ids: tuple[Ids, Ids]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Positions and values of the entries in the rows of a shard."""
    rows, cols = ids
    if not len(part[0]):  # ids of an empty part have no type
        return np.zeros(0, np.int64), np.zeros(0, np.int64), part[2]
    mine = (part[0] >= rows[0]) & (part[0] <= rows[-1])
    return np.searchsorted(rows, part[0][mine]), np.searchsorted(cols, part[1][mine]), part[2][mine]


def shard_of_parts(
    parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]], ids: tuple[Ids, Ids], first: int, aside: Aside | None
) -> Shard:
    """A shard, put together from its entries in all parts."""
    i, j, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    rows, cols = ids
    shape = len(rows), len(cols)
    try:
        arrays = compress(i.astype(np.int32), j.astype(np.int32), values, shape, "error", _named(rows), _named(cols))
    except ValueError as error:  # its advice on repeated entries does not apply here
        found = str(error).split(" Give every pair")[0]
        raise ValueError(f"{found} Give every pair once: group the table by row and column first.") from None
    return shard_of_arrays(arrays, len(cols), first, aside)
