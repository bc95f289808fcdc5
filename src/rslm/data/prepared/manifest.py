"""The manifest of a folder of prepared data: what is in it, with checksums.

The entries are stored row by row in NumPy arrays: `index.npy` has the columns, `values.npy` the values; row i owns
entries `indptr[i]` to `indptr[i + 1]` − 1. If entries have weights, they are in `weights.npy`. A shard is a range of
rows with its own checksums.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MANIFEST = "manifest.json"
FORMAT, VERSION = "rslm prepared data", 2
ARRAYS = ("indptr", "index", "values")
WEIGHTS = "weights"  # an array that a folder need not have
SIDES = ("row", "col")


@dataclass(frozen=True)
class Shard:
    """Rows `first` to `last` − 1, with checksums (CRC-32) of their columns, values and weights."""

    first: int
    last: int
    index: int
    values: int
    weights: int | None = None


@dataclass(frozen=True)
class Manifest:
    shape: tuple[int, int]
    entries: int
    indptr: int  #: its checksum
    shards: tuple[Shard, ...]
    how: str  #: how the data were read
    ids: tuple[int, ...]  #: checksums of the files with the ids of rows and columns

    @property
    def weighted(self) -> bool:
        """Whether the entries have weights."""
        return any(shard.weights is not None for shard in self.shards)

    def write(self, folder: Path) -> None:
        facts = asdict(self)
        for shard in facts["shards"]:
            if shard["weights"] is None:  # a folder without weights is as older versions write and read it
                del shard["weights"]
        text = json.dumps({"format": FORMAT, "version": VERSION, **facts}, indent=1)
        (folder / MANIFEST).write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        try:
            found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            if found.pop("format") != FORMAT:
                raise KeyError("format")
            version = found.pop("version")
            if version != VERSION:
                raise ValueError(f"{folder} has format version {version}, but {VERSION} is needed; prepare it again")
            shards = tuple(Shard(**shard) for shard in found.pop("shards"))
            read = cls(tuple(found.pop("shape")), shards=shards, ids=tuple(found.pop("ids")), **found)
            read.check()
            return read
        except (KeyError, TypeError, AttributeError, RecursionError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{folder / MANIFEST} is damaged ({error}); prepare the data again") from None

    def check(self) -> None:
        """Raise a KeyError if something is wrong; the shards must cover all rows in order."""
        whole = [*self.shape, self.entries, self.indptr, *self.ids]
        whole += [n for shard in self.shards for n in (shard.first, shard.last, shard.index, shard.values)]
        if self.weighted:
            whole += [shard.weights for shard in self.shards]  # type: ignore[misc]  # None is found below
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in whole) or not isinstance(self.how, str):
            raise KeyError("a number")
        if len(self.shape) != 2 or len(self.ids) != 2:
            raise KeyError("shape")
        ends = [0, *(shard.last for shard in self.shards)]
        if [shard.first for shard in self.shards] != ends[:-1] or ends[-1] != self.shape[0] or ends != sorted(ends):
            raise KeyError("shards")


def ids_file(folder: Path, side: str) -> Path:
    """The file with the ids: an array if they are numbers, JSON if they are text."""
    numbers = folder / f"{side}_ids.npy"
    return numbers if numbers.exists() else folder / f"{side}_ids.json"


def is_prepared(path: str | os.PathLike[str]) -> bool:
    return (Path(path) / MANIFEST).is_file()


def checksum(array: NDArray[Any]) -> int:
    """CRC-32 of the bytes of an array."""
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data) if array.size else 0


def checksums(*arrays: NDArray[Any]) -> str:
    """Those of several arrays, as text."""
    return " ".join(f"{checksum(array):08x}" for array in arrays)
