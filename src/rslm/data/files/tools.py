"""Compressed files, and packages that only files need."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

GZIP = b"\x1f\x8b"


def polars() -> Any:
    try:
        import polars as pl
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "to read tables from files, install one more package: pip install 'rslm[cli]'"
        ) from None
    return pl


def opened_if_compressed(source: Path | bytes, name: str) -> Path | bytes:
    """The content of a gzip file; anything else as it is."""
    begins = source[:2] if isinstance(source, bytes) else _first_bytes(source)
    if begins != GZIP:
        return source
    try:
        return gzip.decompress(source if isinstance(source, bytes) else source.read_bytes())
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{name} is damaged, its compressed content ends too early or is wrong: {error}") from None


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(2)
