"""Compressed files, and packages that are needed only for files."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from rslm.data.files.locate import beginning

GZIP = b"\x1f\x8b"
BLOCK = 1 << 20  # bytes read at a time


def polars() -> Any:
    try:
        import polars as pl
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "to read tables from files, install one more package: pip install 'rslm[cli]'"
        ) from None
    return pl


def opened_if_compressed(source: Path | bytes, name: str) -> Path | bytes:
    """The content of a gzip file; any other source unchanged."""
    if beginning(source, 2) != GZIP:
        return source
    return b"".join(blocks(source, name))


def blocks(source: Path | bytes, name: str, size: int = BLOCK) -> Iterator[bytes]:
    """The content piece by piece, unpacked if it is compressed."""
    with stream(source) as file:
        try:
            while block := file.read(size):
                yield block
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{name} is damaged: its compressed content ends too early or is wrong: {error}") from None


def stream(source: Path | bytes) -> IO[bytes]:
    """The content as a file, unpacked if it is compressed."""
    packed = beginning(source, 2) == GZIP
    if isinstance(source, bytes):
        return gzip.GzipFile(fileobj=io.BytesIO(source)) if packed else io.BytesIO(source)  # type: ignore[return-value]
    return gzip.GzipFile(source) if packed else source.open("rb")  # type: ignore[return-value]
