"""Parquet read by Polars, first in a child process: a damaged file may crash the process that reads it."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from rslm.data.files.locate import PARQUET
from rslm.data.files.tools import polars

TAIL = 8  # bytes: the length of the footer, and the magic number
# Column by column, so that it takes less memory than the actual reading, and never more than the machine has.
TRIAL = """
import io, sys
try:
    import os, resource
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (whole, resource.getrlimit(resource.RLIMIT_AS)[1]))
except (ImportError, OSError, ValueError):
    pass
import polars
path, rows = sys.argv[1], int(sys.argv[2]) or None
source = io.BytesIO(sys.stdin.buffer.read()) if path == "-" else path
try:
    for name in polars.read_parquet(source, n_rows=0, glob=False).columns:
        polars.read_parquet(source, columns=[name], n_rows=rows, glob=False)
except BaseException as error:
    sys.stdout.buffer.write(str(error).split(chr(10), 1)[0][:200].encode("utf-8", "replace"))
    sys.stdout.flush()
    os._exit(3)
"""


def read_parquet(source: Path | bytes, name: str, rows: int | None = None) -> Any:
    """A Parquet file, or its first rows, as a frame."""
    pl = polars()
    _check_footer(source, name)
    _try_out(source, name, rows)
    try:
        return pl.read_parquet(source, n_rows=rows, glob=False)  # a file name may contain [1]
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        raise _damaged(name, str(error).split("\n", 1)[0][:200]) from None


def _damaged(name: str, why: str) -> ValueError:
    return ValueError(f"{name} is damaged or not a Parquet file: {why}")


def _check_footer(source: Path | bytes, name: str) -> None:
    """Check the end of the file: a footer, the length of the footer, and the magic number."""
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        begins = file.read(len(PARQUET))
        file.seek(max(size - TAIL, 0))
        tail = file.read()
    if begins != PARQUET or len(tail) < TAIL or tail[4:] != PARQUET:
        raise _damaged(name, "it does not begin and end with PAR1, so it may have been cut short")
    length = struct.unpack("<I", tail[:4])[0]
    if length > size - TAIL - len(PARQUET):
        raise _damaged(name, f"its footer claims {length:,} bytes, but the file has {size:,}")


def _try_out(source: Path | bytes, name: str, rows: int | None) -> None:
    """Raise an error if a child process cannot read the file."""
    if not sys.executable:  # Python is embedded in another program and cannot start a child process
        return
    known = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    path = "-" if isinstance(source, bytes) else os.fspath(source)
    done = subprocess.run(
        [sys.executable, "-P", "-c", TRIAL, path, str(rows or 0)],
        input=source if isinstance(source, bytes) else None,
        stdin=None if isinstance(source, bytes) else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | known,
        check=False,
    )
    if done.returncode:
        said = done.stdout.decode("utf-8", "replace")
        raise _damaged(name, said or f"a process that read it ended with exit code {done.returncode}")
