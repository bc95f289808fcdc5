"""Scratch arrays as long as the data: on disk if the data are on disk."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def scratch_like(like: NDArray[Any], dtype: DTypeLike | None = None, length: int | None = None) -> NDArray[Any]:
    """An uninitialised array of the length and type of `like`, unless another length or type is given.

    If `like` is mapped from a file, so is the new array: from an unnamed file in the same folder, or, if that is not
    writable, in the folder for temporary files. The system can then write it to disk when memory is short.
    """
    kind, count = like.dtype if dtype is None else np.dtype(dtype), len(like) if length is None else length
    folder = _folder(like)
    if folder is None or count == 0:
        return np.empty(count, kind)
    handle, name = _opened(folder)
    try:
        if hasattr(os, "posix_fallocate"):  # a full disk at a later write would crash Python
            _allocate(handle, kind.itemsize * count, Path(name).parent)
        return np.memmap(name, kind, "r+" if hasattr(os, "posix_fallocate") else "w+", shape=(count,))
    finally:
        os.close(handle)
        with suppress(OSError):  # some systems cannot remove a file that is in use
            Path(name).unlink()


def _opened(folder: Path) -> tuple[int, str]:
    try:
        return tempfile.mkstemp(dir=folder, prefix=".rslm-")
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        return tempfile.mkstemp(prefix=".rslm-")


def _allocate(handle: int, size: int, folder: Path) -> None:
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError as error:
        why = f"{error.strerror}; {size / 1e9:.3g} GB are needed there for arrays as long as the data"
        raise type(error)(error.errno, why, str(folder)) from None


def _folder(array: Any) -> Path | None:
    """The folder of the file that an array is mapped from, or None."""
    while array is not None:
        if isinstance(array, np.memmap) and array.filename is not None:
            return Path(str(array.filename)).parent
        array = getattr(array, "base", None)
    return None
