"""The source of data: a file, a pipe, or standard input."""

from __future__ import annotations

import sys
from os import PathLike, fspath
from pathlib import Path

from rslm.data.prepared.manifest import is_prepared

PARQUET, ZIP = b"PAR1", b"PK\x03\x04"
STANDARD_INPUT = "-"


def located(path: str | PathLike[str]) -> tuple[str, Path | bytes]:
    """The name of the data for messages, and the file or its content."""
    if fspath(path) == STANDARD_INPUT:
        content = sys.stdin.buffer.read()
        if not content:
            raise ValueError("standard input is empty")
        return "standard input", content
    file = Path(path)
    if is_prepared(file):
        raise IsADirectoryError(f"{file} is prepared data, the entries of a matrix; a file with a table is needed here")
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a folder; name a file in it")
    if not file.exists():
        raise FileNotFoundError(f"{file} does not exist")
    if not file.is_file() or file.stat().st_size == 0:  # a pipe has size 0, and can be read only once
        content = file.read_bytes()
        if not content:
            raise ValueError(f"{file} is empty")
        return str(file), content
    return str(file), file.absolute()  # else Polars would take a name that begins with ~ for a home folder


def beginning(source: Path | bytes, size: int = 8) -> bytes:
    if isinstance(source, bytes):
        return source[:size]
    with source.open("rb") as file:
        return file.read(size)
