"""Where data come from: a file, or standard input."""

from __future__ import annotations

import sys
from os import PathLike, fspath
from pathlib import Path

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
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a folder; name a file in it")
    if not file.exists():
        raise FileNotFoundError(f"{file} does not exist")
    if file.stat().st_size == 0:
        raise ValueError(f"{file} is empty")
    return str(file), file


def beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(8)
