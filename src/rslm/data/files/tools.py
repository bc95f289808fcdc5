"""Compressed files, and packages that only files need."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

from rslm.data.files.locate import beginning

GZIP = b"\x1f\x8b"


def polars() -> Any:
    try:
        import polars as pl
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "to read tables from files, install one more package: pip install 'rslm[cli]'"
        ) from None
    return pl


def parquet(source: Path | bytes, name: str) -> Any:
    """A Parquet file as a frame."""
    pl = polars()
    try:
        return pl.read_parquet(source, glob=False)  # a name with [1] in it is a name
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise ValueError(f"{name} is damaged or no Parquet file: {str(error).splitlines()[0][:200]}") from None


def opened_if_compressed(source: Path | bytes, name: str) -> Path | bytes:
    """The content of a gzip file; anything else as it is."""
    if beginning(source, 2) != GZIP:
        return source
    try:
        return gzip.decompress(source if isinstance(source, bytes) else source.read_bytes())
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{name} is damaged, its compressed content ends too early or is wrong: {error}") from None
