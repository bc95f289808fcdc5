"""Prepared data as an `ObservedMatrix` whose arrays stay on disk."""

from __future__ import annotations

import io
import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data.convert import canonical
from rslm.data.observed import ObservedMatrix
from rslm.data.prepared.manifest import ARRAYS, MANIFEST, SIDES, WEIGHTS, Manifest, Shard, checksum, ids_file

TYPES = {"indptr": ("<i8",), "index": ("<i4",), "values": ("<f4", "<f8"), WEIGHTS: ("<f8",)}


def open_prepared(folder: str | os.PathLike[str], *, check: bool = False) -> ObservedMatrix:
    """The data that `prepare` has written. Arrays are memory-mapped, so only the parts in use take memory.

    Parameters
    ----------
    folder : path
    check : bool, default=False
        Whether to verify all checksums, which reads all of the data once. Sizes are always verified.
    """
    home = Path(folder)
    if not (home / MANIFEST).is_file():
        raise FileNotFoundError(f"{home} is not prepared data: it has no {MANIFEST}; make it with rslm prepare")
    manifest = Manifest.read(home)
    indptr, index, values = (_mapped(home / f"{name}.npy", TYPES[name]) for name in ARRAYS)
    weights = _mapped(home / f"{WEIGHTS}.npy", TYPES[WEIGHTS]) if manifest.weighted else None
    whole = len(indptr) == manifest.shape[0] + 1 and len(index) == len(values) == manifest.entries
    whole = whole and (weights is None or len(weights) == manifest.entries)
    whole = whole and checksum(indptr) == manifest.indptr and int(indptr[0]) == 0 and bool(np.all(np.diff(indptr) >= 0))
    if not whole or int(indptr[-1]) != manifest.entries:
        raise ValueError(f"{home} is damaged: its arrays are not those of its {MANIFEST}; prepare the data again")
    if check:
        for shard in manifest.shards:
            _check(home, shard, indptr, index, values, weights, manifest.shape[1])
    named = zip(SIDES, manifest.ids, manifest.shape, strict=True)
    row_ids, col_ids = (_ids(ids_file(home, side), known, count) for side, known, count in named)
    return ObservedMatrix(np.asarray(indptr), index, values, manifest.shape, row_ids, col_ids, weights)


def _check(home: Path, shard: Shard, indptr: Any, index: Any, values: Any, weights: Any, columns: int) -> None:
    at = slice(int(indptr[shard.first]), int(indptr[shard.last]))
    arrays = (("index", index, shard.index), ("values", values, shard.values), (WEIGHTS, weights, shard.weights))
    for name, array, known in arrays:
        if array is not None and checksum(array[at]) != known:
            raise ValueError(
                f"{home / name}.npy is damaged between rows {shard.first + 1} and {shard.last}; prepare the data again"
            )

    try:
        canonical(indptr[shard.first : shard.last + 1] - indptr[shard.first], index[at], values[at])
        right = not len(index[at]) or 0 <= int(index[at].min()) <= int(index[at].max()) < columns
        right = right and (weights is None or bool(((weights[at] > 0) & (weights[at] < np.inf)).all()))
    except ValueError:
        right = False
    if not right:
        raise ValueError(
            f"{home} has invalid columns, values or weights between rows {shard.first + 1} and {shard.last}; prepare "
            "the data again"
        )


def _mapped(path: Path, dtypes: tuple[str, ...]) -> NDArray[Any]:
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        if found.ndim != 1 or found.dtype.str not in dtypes:
            raise ValueError(f"an array of {found.ndim} dimensions and type {found.dtype}")
    except Exception as error:  # NumPy raises many types of exceptions
        said = str(error).split("\n", 1)[0][:200]
        raise ValueError(f"{path} is damaged or missing ({said}); prepare the data again") from None
    return found


def _ids(path: Path, known: int, count: int) -> NDArray[Any]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = b""
    if zlib.crc32(content) != known:
        raise ValueError(f"{path} is damaged or missing; prepare the data again")
    try:
        if path.suffix == ".json":
            listed = json.loads(content)
            if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
                raise ValueError("not a list of names")
            found: NDArray[Any] = np.array(listed, dtype=object)
        else:
            found = np.load(io.BytesIO(content), allow_pickle=False)
        if found.shape != (count,) or found.dtype.kind not in "iuO":
            raise ValueError(f"{found.shape} ids of type {found.dtype}, where {count} are needed")
    except Exception as error:  # from JSON or NumPy, of many types
        said = str(error).split("\n", 1)[0][:200]
        raise ValueError(f"{path} is damaged ({said}); prepare the data again") from None
    return found
