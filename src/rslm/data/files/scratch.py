"""Storage for rewritten text: in memory if it is short, else in a file that is removed after its last use."""

from __future__ import annotations

import io
import tempfile
import weakref
from pathlib import Path
from typing import IO

SHORT = 1 << 24  # bytes of the original


class ScratchFile(type(Path())):  # type: ignore[misc]  # Path itself is abstract before Python 3.12
    """A path whose file is removed when the path object is garbage-collected."""


class Scratch:
    """Storage to which rewritten text is written piece by piece.

    Parameters
    ----------
    source : the original
        If it is in memory, so is the rewritten text.
    folder : path, optional
        Where a file is created; the usual place for temporary files if None.
    """

    def __init__(self, source: Path | bytes, folder: Path | None) -> None:
        self._file: IO[bytes]
        if isinstance(source, bytes) or (folder is None and source.stat().st_size <= SHORT):
            self._path, self._file = None, io.BytesIO()
        else:
            made = tempfile.NamedTemporaryFile(dir=folder, prefix="rslm-", suffix=".txt", delete=False)  # noqa: SIM115
            self._path, self._file = ScratchFile(made.name), made
            weakref.finalize(self._path, _remove, made)

    def write(self, text: bytes) -> None:
        self._file.write(text)

    def done(self) -> Path | bytes:
        if self._path is None:
            assert isinstance(self._file, io.BytesIO)
            return self._file.getvalue()
        self._file.close()
        return self._path


def _remove(file: IO[bytes]) -> None:
    file.close()
    Path(file.name).unlink(missing_ok=True)
