"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def appearing(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """A text file that takes its name when it is complete."""
    with _appearing(path, "w", encoding="utf-8", newline="") as file:
        yield file


@contextmanager
def appearing_bytes(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file of bytes that takes its name when it is complete."""
    with _appearing(path, "wb") as file:
        yield file


@contextmanager
def _appearing(path: str | os.PathLike[str], mode: str, **options: Any) -> Iterator[IO[Any]]:
    target = Path(path)
    with tempfile.NamedTemporaryFile(
        mode, dir=target.parent, prefix=f".{target.name}.", delete=False, **options
    ) as file:
        try:
            yield file
            file.close()
            Path(file.name).chmod(_usual_mode())
            Path(file.name).replace(target)
        except BaseException:
            file.close()
            Path(file.name).unlink(missing_ok=True)
            raise


def _usual_mode() -> int:
    """The permissions of a new file; a temporary one is for its owner only."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
