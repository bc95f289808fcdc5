"""Where data come from: a file, a pipe, or standard input."""

from __future__ import annotations

import sys
from os import PathLike, fspath
from pathlib import Path

from rslm.data.prepared.manifest import is_prepared

PARQUET, ZIP = b"PAR1", b"PK\x03\x04"
STANDARD_INPUT = "-"


def located(path: str | PathLike[str]) -> tuple[str, Path | bytes]:
    """What to call the data in messages, and the file or the content."""
    if fspath(path) == STANDARD_INPUT:
        content = sys.stdin.buffer.read()
        if not content:
            raise ValueError("standard input is empty")
        return "standard input", content
    file = Path(path)
    if is_prepared(file):
        raise IsADirectoryError(f"{file} is prepared data, entries of a matrix; here a table in a file is needed")
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a folder; name a file in it")
    if not file.exists():
        raise FileNotFoundError(f"{file} does not exist")
    if not file.is_file() or file.stat().st_size == 0:  # a pipe has no size, and can be read only once
        content = file.read_bytes()
        if not content:
            raise ValueError(f"{file} is empty")
        return str(file), content
    return str(file), file.absolute()  # or Polars would take a name that begins with ~ for a home folder


def beginning(source: Path | bytes, size: int = 8) -> bytes:
    if isinstance(source, bytes):
        return source[:size]
    with source.open("rb") as file:
        return file.read(size)
