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

from rslm.data.observed import ObservedMatrix
from rslm.data.prepared.manifest import ARRAYS, MANIFEST, SIDES, Manifest, Shard, checksum, ids_file


def open_prepared(folder: str | os.PathLike[str], *, check: bool = False) -> ObservedMatrix:
    """The data that `prepare` has written; arrays are mapped, so memory is taken only for what is being worked on.

    Parameters
    ----------
    folder : path
    check : bool, default=False
        Whether all checksums are compared, which reads all of the data once. Sizes are always compared.
    """
    home = Path(folder)
    if not (home / MANIFEST).is_file():
        raise FileNotFoundError(f"{home} is no prepared data: it has no {MANIFEST}; make it with rslm prepare")
    manifest = Manifest.read(home)
    indptr, index, values = (_mapped(home / f"{name}.npy") for name in ARRAYS)
    whole = len(indptr) == manifest.shape[0] + 1 and len(index) == len(values) == manifest.entries
    if not whole or checksum(indptr) != manifest.indptr or int(indptr[-1]) != manifest.entries:
        raise ValueError(f"{home} is damaged: its arrays are not those of its {MANIFEST}; prepare the data again")
    if check:
        for shard in manifest.shards:
            _check(home, shard, indptr, index, values)
    ids = [_ids(ids_file(home, side), known) for side, known in zip(SIDES, manifest.ids, strict=True)]
    return ObservedMatrix(np.asarray(indptr), index, values, manifest.shape, *ids)


def _check(home: Path, shard: Shard, indptr: Any, index: Any, values: Any) -> None:
    at = slice(int(indptr[shard.first]), int(indptr[shard.last]))
    for name, array, known in (("index", index, shard.index), ("values", values, shard.values)):
        if checksum(array[at]) != known:
            raise ValueError(
                f"{home / name}.npy is damaged between rows {shard.first + 1} and {shard.last}; prepare the data again"
            )


def _mapped(path: Path) -> NDArray[Any]:
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is damaged or missing ({error}); prepare the data again") from None
    return found


def _ids(path: Path, known: int) -> NDArray[Any]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = b""
    if zlib.crc32(content) != known:
        raise ValueError(f"{path} is damaged or missing; prepare the data again")
    if path.suffix == ".json":
        return np.array(json.loads(content), dtype=object)
    found: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    return found
