"""Prepared data as an `ObservedMatrix` whose arrays stay on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.data.observed import ObservedMatrix
from rslm.data.prepared.manifest import ARRAYS, MANIFEST, Manifest, Shard, checksum


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
    ids = (_ids(home / f"{side}_ids") for side in ("row", "col"))
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


def _ids(stem: Path) -> NDArray[Any] | None:
    """Numbers as an array, words as JSON; None where there are no ids."""
    if stem.with_suffix(".npy").exists():
        return np.asarray(_mapped(stem.with_suffix(".npy")))
    if not stem.with_suffix(".json").exists():
        return None
    try:
        return np.array(json.loads(stem.with_suffix(".json").read_text(encoding="utf-8")), dtype=object)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{stem.with_suffix('.json')} is damaged ({error}); prepare the data again") from None
