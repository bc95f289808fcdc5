"""Write a table of any size as a folder of prepared data, in bounded memory: DuckDB sorts, on disk if necessary."""

from __future__ import annotations

import glob
import json
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from rslm.data.convert import Duplicates, canonical
from rslm.data.prepared.manifest import (
    ARRAYS,
    MANIFEST,
    SIDES,
    WEIGHTS,
    Manifest,
    Shard,
    checksum,
    ids_file,
    is_prepared,
)
from rslm.data.prepared.table import Table, duckdb, line_of
from rslm.storage.atomic import UNFINISHED, lock, try_lock, unfinished_prefix

SHARD = 4_000_000  # entries in memory at a time
OLD = 86_400  # seconds after which a work folder counts as abandoned, whichever machine made it
OURS = {MANIFEST, *(f"{name}.npy" for name in (*ARRAYS, WEIGHTS))}
OURS |= {f"{side}_ids.{kind}" for side in SIDES for kind in ("npy", "json")}
MERGED = {"sum": "sum(v)", "mean": "avg(v)", "last": "arg_max(v, t.rowid)"}  # the value of a repeated entry
WEIGHTED = {  # the same with weights: its value, and its weight
    "sum": ("sum(v)", "min(w)"),  # of equal weights
    "mean": ("sum(v * w) / sum(w)", "sum(w)"),
    "last": (MERGED["last"], "arg_max(w, t.rowid)"),
}

Progress = Callable[[str], None]  #: called with a description of the current step


def prepare(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    rows: str | int | None = None,
    cols: str | int | None = None,
    values: str | int | None = None,
    weights: str | int | None = None,
    duplicates: Duplicates = "error",
    events: bool = False,
    memory: str = "1GB",
    force: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Write a table with one entry per line as a folder that `open_prepared` and all commands read.

    Parameters
    ----------
    path : path
        Text with any delimiter (also compressed) or Parquet; it may be larger than memory.
    out : path
        The folder to write. It appears complete or not at all.
    delimiter, header, encoding, rows, cols, values, weights, duplicates, events
        As in `read_source`.
    memory : str, default="1GB"
        Maximum memory for sorting; the rest goes to a temporary folder next to `out`.
    force : bool, default=False
        Whether to replace an existing folder of prepared data.
    progress : function, optional
        Called with a description of every step.
    """
    target = Path(out)
    if target.exists() and not (force and is_prepared(target)):
        remedy = (
            "force=True or --force replaces it"
            if is_prepared(target)
            else "it is not prepared data, so it is not replaced"
        )
        raise FileExistsError(f"{target} exists; {remedy}")
    if not target.absolute().parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; create it first")
    if target.exists() and (others := sorted({p.name for p in target.iterdir()} - OURS)):
        raise FileExistsError(
            f"{target} holds {others[0]!r}, which is not prepared data; move it away to replace the rest"
        )
    report = progress or (lambda _: None)
    _remove_abandoned(target.absolute())
    prefix = f"{unfinished_prefix(target)}{os.getpid()}."
    work = Path(tempfile.mkdtemp(dir=target.absolute().parent, prefix=prefix, suffix=UNFINISHED))
    with _locked(work):
        try:
            table = Table.of(path, delimiter, header, encoding, rows, cols, values, weights, events, work)
            counted: Duplicates = "sum" if table.columns[2] is None and duplicates == "error" else duplicates
            manifest = _written(table, work, target, counted, memory, report)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return manifest


def _written(table: Table, work: Path, target: Path, duplicates: Duplicates, memory: str, report: Progress) -> Manifest:
    try:
        with _database(work, memory, table.name) as database:
            manifest = _write(database, table, work / "out", duplicates, report)
        _replace(work / "out", target)
    except OSError as error:
        if error.errno is None:
            raise
        raise type(error)(error.errno, f"{error.strerror}; nothing was written", str(target)) from None
    return manifest


def _remove_abandoned(target: Path) -> None:
    """Remove work folders of killed processes: those that are not locked, or older than a day."""
    for other in target.parent.glob(f".{glob.escape(target.name)}.*{UNFINISHED}"):
        if other.is_dir():
            with suppress(OSError), try_lock(other) as free:
                ours = other.name.startswith(unfinished_prefix(target))
                if (ours and free) or time.time() - other.stat().st_mtime > OLD:
                    shutil.rmtree(other, ignore_errors=True)


@contextmanager
def _locked(work: Path) -> Iterator[None]:
    """Lock the folder, so that no other process takes it for abandoned."""
    if os.name != "posix":
        yield
        return
    handle = os.open(work, os.O_RDONLY)
    lock(handle)
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def _database(work: Path, memory: str, name: str) -> Iterator[Any]:
    database = None
    try:
        database = duckdb().connect(str(work / "work.duckdb"))
        database.execute("SET memory_limit = ?", [memory])
        database.execute("SET temp_directory = ?", [str(work)])
        yield database
    except duckdb().Error as error:
        raise ValueError(f"{name}: {line_of(error)}") from None
    finally:
        if database is not None:
            database.close()


def _write(database: Any, table: Table, folder: Path, duplicates: Duplicates, report: Progress) -> Manifest:
    report("reading")
    table.load(database, keep_order=duplicates == "last")
    report("numbering rows and columns")
    for side, column in (("row", "r"), ("col", "c")):
        database.execute(
            f"CREATE TABLE {side}s AS SELECT {column}, (row_number() OVER (ORDER BY {column}) - 1)::INTEGER AS k "
            f"FROM (SELECT DISTINCT {column} FROM t)"
        )
    weighted = _entries(database, table, duplicates)
    narrow = not database.execute("SELECT count(*) FROM e WHERE v <> v::FLOAT::DOUBLE").fetchone()[0]
    database.execute("DROP TABLE t")
    ids = {side: database.execute(f"SELECT * FROM {side}s ORDER BY k").fetchnumpy() for side in ("row", "col")}
    row_ids, col_ids = ids["row"]["r"], ids["col"]["c"]
    counts = np.zeros(len(row_ids), dtype=np.int64)
    found = database.execute("SELECT i, count(*) AS n FROM e GROUP BY i").fetchnumpy()
    counts[found["i"]] = found["n"]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    folder.mkdir()
    shards = []
    columns = ("i", "j", "v", "w") if weighted else ("i", "j", "v")
    types = {"index": np.dtype(np.int32), "values": np.dtype(np.float32 if narrow else np.float64)}
    types |= {WEIGHTS: np.dtype(np.float64)} if weighted else {}
    with ExitStack() as opened:
        files = {k: opened.enter_context(_array(folder / f"{k}.npy", t, int(indptr[-1]))) for k, t in types.items()}
        for first, last in _ranges(indptr):
            report(f"writing rows {first + 1:,} to {last:,} of {len(counts):,}")
            part = database.execute(
                f"SELECT {', '.join(columns)} FROM e WHERE i BETWEEN ? AND ? ORDER BY i, j", [first, last - 1]
            ).fetchnumpy()
            own = indptr[first : last + 1] - indptr[first]
            try:
                _, index, values = canonical(own, part["j"], part["v"], "error", row_ids[first:last], col_ids)
            except ValueError as error:  # repeated entries
                raise ValueError(f"{table.name}: {error}") from None
            arrays = {"index": index, "values": values.astype(types["values"])}
            arrays |= {WEIGHTS: np.ma.getdata(part["w"])} if weighted else {}
            for kind, array in arrays.items():
                files[kind].write(array.tobytes())
            shards.append(Shard(first, last, **{kind: checksum(array) for kind, array in arrays.items()}))
    np.save(folder / "indptr.npy", indptr)
    for side, column in (("row", row_ids), ("col", col_ids)):
        _write_ids(folder / f"{side}_ids", column)
    shape = len(row_ids), len(col_ids)
    named = tuple(zlib.crc32(ids_file(folder, side).read_bytes()) for side in SIDES)
    manifest = Manifest(shape, int(indptr[-1]), checksum(indptr), tuple(shards), table.how, named)
    manifest.write(folder)
    return manifest


def _entries(database: Any, table: Table, duplicates: Duplicates) -> bool:
    """Create the table e of all entries: i, j, v and w; returns whether they have weights other than 1.

    Rows and columns keep their numbers where all of their entries have weight 0, which are left out.
    """
    weighted = table.weights is not None
    value, weight, group = "v", "w", ""
    if duplicates in MERGED:
        value, weight = WEIGHTED[duplicates] if weighted else (MERGED[duplicates], "w")
        group = "GROUP BY i, j"
    joined = f"FROM t JOIN rows USING (r) JOIN cols USING (c) {'WHERE w > 0' if weighted else ''}"
    if weighted and duplicates == "sum":
        found = database.execute(
            f"SELECT r, c {joined} GROUP BY r, c HAVING min(w) <> max(w) ORDER BY r, c LIMIT 1"
        ).fetchone()
        if found is not None:
            raise ValueError(
                f"{table.name}: row {found[0]!r}, column {found[1]!r} is repeated with different weights, so its sum "
                "has none. Give equal weights, or choose duplicates mean or last."
            )
    entry = f"{value} AS v, {weight} AS w" if weighted else f"{value} AS v"
    database.execute(f"CREATE TABLE e AS SELECT rows.k AS i, cols.k AS j, {entry} {joined} {group}")
    return weighted and bool(database.execute("SELECT count(*) FROM e WHERE w <> 1").fetchone()[0])


def _ranges(indptr: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Ranges of rows with at most SHARD entries each; a row that is larger has a range of its own."""
    first, rows = 0, len(indptr) - 1
    while first < rows:
        last = int(np.searchsorted(indptr, indptr[first] + SHARD, side="right")) - 1
        last = min(max(last, first + 1), rows)
        yield first, last
        first = last


@contextmanager
def _array(path: Path, dtype: np.dtype[Any], length: int) -> Iterator[IO[bytes]]:
    """An npy file, written piece by piece. Not through a memory map, where a full disk would crash Python."""
    with path.open("wb") as file:
        described = {"descr": dtype.str, "fortran_order": False, "shape": (length,)}
        np.lib.format.write_array_header_1_0(file, described)
        yield file


def _write_ids(stem: Path, ids: NDArray[Any]) -> None:
    ids = np.ma.getdata(ids)
    if ids.dtype.kind in "iu":
        small = len(ids) == 0 or max(abs(int(ids.min())), abs(int(ids.max()))) < 2**31
        np.save(stem.with_suffix(".npy"), ids.astype(np.int32 if small else np.int64))
    else:
        stem.with_suffix(".json").write_text(json.dumps(ids.tolist()), encoding="utf-8")


def _replace(made: Path, target: Path) -> None:
    """Give the new folder its name. The old one is moved away first, and moved back if that fails."""
    old = made.with_name("old")
    if target.exists():
        target.rename(old)
    try:
        made.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise
