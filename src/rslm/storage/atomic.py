"""Atomic writes: a file appears under its name when it is complete, or not at all.

Until then it has a temporary name that ends with `.unfinished`, and the process that writes it holds a lock on it. If
that process is killed, the lock is released, and the next process that writes the same file removes the leftover.
"""

from __future__ import annotations

import glob
import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ModuleNotFoundError:  # Windows, where an open file cannot be removed, so no lock is needed
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".unfinished"


@contextmanager
def atomic_text(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """Write a text file that takes its name when it is complete."""
    with _atomic(path, "w", encoding="utf-8", newline="") as file:
        yield file


@contextmanager
def atomic_bytes(path: str | os.PathLike[str], *, repeated: bool = False) -> Iterator[IO[bytes]]:
    """Write a binary file that takes its name when it is complete; it is opened for reading as well.

    Parameters
    ----------
    path : path
    repeated : bool
        Whether one process writes this file many times. Abandoned files are then not searched for at every write: the
        caller does so once, with `remove_abandoned`.
    """
    with _atomic(path, "w+b", repeated) as file:
        yield file


def unfinished_prefix(target: Path) -> str:
    """The prefix of the temporary names that this machine gives to an unfinished file."""
    return f".{target.name[:100]}.{platform.node()[:40]}."  # a file name has at most 255 bytes


def remove_abandoned(target: Path) -> None:
    """Remove unfinished versions of a file whose processes, on this machine, no longer run."""
    for other in target.parent.glob(f"{glob.escape(unfinished_prefix(target))}*{UNFINISHED}"):
        if other.is_file():
            with suppress(OSError), try_lock(other) as free:
                if free:
                    other.unlink(missing_ok=True)


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Try to lock a file or folder for the duration of the context; yields whether that was possible."""
    if fcntl is None:
        yield path.is_file()
        return
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        yield lock(handle)
    finally:
        os.close(handle)


def lock(handle: int) -> bool:
    """Lock an open file until it is closed. Returns whether that was possible."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process holds the lock, or the file system has none
        return False
    return True


def target_of(path: str | os.PathLike[str]) -> Path:
    """The path to write to, with links followed; an error if it is not a regular file or has no folder."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it")
    if target.exists() and not target.is_file():
        raise OSError(f"{path} is not a regular file, so it is not replaced; name another file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {Path(path).parent} does not exist; create it first")
    return target


@contextmanager
def _atomic(path: str | os.PathLike[str], mode: str, repeated: bool = False, **options: Any) -> Iterator[IO[Any]]:
    target = target_of(path)
    try:
        if not repeated:
            remove_abandoned(target)
        handle, name = _temporary(target)
        held = None if fcntl is None else os.dup(handle)  # keeps the lock until the file has its final name
        try:
            with open(handle, mode, **options) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())  # else a power cut may leave the new name without the content
            Path(name).chmod(_usual_mode())
            Path(name).replace(target)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink(missing_ok=True)
            raise
        finally:
            if held is not None:
                os.close(held)
    except OSError as error:  # it may name the temporary file, or no file
        if error.errno is None:
            raise
        raise type(error)(error.errno, f"{error.strerror}; nothing was written", str(path)) from None


def _temporary(target: Path) -> tuple[int, str]:
    """A new file in the folder of the target, locked by this process."""
    while True:
        prefix = f"{unfinished_prefix(target)}{os.getpid()}."
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=prefix, suffix=UNFINISHED)
        lock(handle)
        with suppress(FileNotFoundError):
            if os.name != "posix" or os.stat(name).st_ino == os.fstat(handle).st_ino:
                return handle, name
        os.close(handle)  # another process removed it as abandoned before it was locked


def _usual_mode() -> int:
    """The permissions of an ordinary new file; mkstemp grants access to the owner only."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
