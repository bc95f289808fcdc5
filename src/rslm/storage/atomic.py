"""Files that appear whole or not at all.

Until it is complete, a file has a name that ends with `.unfinished`, and is locked by the process that writes it. If
that was killed, nobody holds the lock: whoever writes the same file next removes what was left.
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
except ModuleNotFoundError:  # Windows, where a file that is open cannot be removed: the lock comes with it
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".unfinished"


@contextmanager
def appearing(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """A text file that takes its name when it is complete."""
    with _appearing(path, "w", encoding="utf-8", newline="") as file:
        yield file


@contextmanager
def appearing_bytes(path: str | os.PathLike[str], *, over_and_over: bool = False) -> Iterator[IO[bytes]]:
    """A file of bytes that takes its name when it is complete; what was written can be read again.

    Parameters
    ----------
    path : path
    over_and_over : bool
        Whether one process writes it many times. What others have left is then looked for once, by the caller, with
        `remove_left_behind`.
    """
    with _appearing(path, "w+b", over_and_over) as file:
        yield file


def beginning_of_unfinished(target: Path) -> str:
    """How the names begin that this machine gives to a file until it is complete."""
    return f".{target.name[:100]}.{platform.node()[:40]}."  # a name has 255 bytes at most


def remove_left_behind(target: Path) -> None:
    """Remove what processes of this machine that do not run any more have left unfinished."""
    for other in target.parent.glob(f"{glob.escape(beginning_of_unfinished(target))}*{UNFINISHED}"):
        if other.is_file():
            with suppress(OSError), unheld(other) as free:
                if free:
                    other.unlink(missing_ok=True)


@contextmanager
def unheld(path: Path) -> Iterator[bool]:
    """Whether no process holds a file or folder; then it is held here for the time being."""
    if fcntl is None:
        yield path.is_file()
        return
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        yield hold(handle)
    finally:
        os.close(handle)


def hold(handle: int) -> bool:
    """Lock an open file until it is closed; whether that was possible."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody holds it, or this disk has no locks
        return False
    return True


def target_of(path: str | os.PathLike[str]) -> Path:
    """Where a file of this name is written, which is where a link leads to; a device or a pipe is not replaced."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it")
    if target.exists() and not target.is_file():
        raise OSError(f"{path} is no regular file, so it is not replaced; name another file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {Path(path).parent} does not exist; make it first")
    return target


@contextmanager
def _appearing(
    path: str | os.PathLike[str], mode: str, over_and_over: bool = False, **options: Any
) -> Iterator[IO[Any]]:
    target = target_of(path)
    try:
        if not over_and_over:
            remove_left_behind(target)
        handle, name = _temporary(target)
        held = None if fcntl is None else os.dup(handle)  # the lock lasts until the file has its name
        try:
            with open(handle, mode, **options) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())  # else a power cut may leave the new name and the content of neither
            Path(name).chmod(_usual_mode())
            Path(name).replace(target)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink(missing_ok=True)
            raise
        finally:
            if held is not None:
                os.close(held)
    except OSError as error:  # which may name the temporary file, or none
        if error.errno is None:
            raise
        raise type(error)(error.errno, f"{error.strerror}; nothing was written", str(path)) from None


def _temporary(target: Path) -> tuple[int, str]:
    """A new file in the folder of the target, locked by this process."""
    while True:
        prefix = f"{beginning_of_unfinished(target)}{os.getpid()}."
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=prefix, suffix=UNFINISHED)
        hold(handle)
        with suppress(FileNotFoundError):
            if os.name != "posix" or os.stat(name).st_ino == os.fstat(handle).st_ino:
                return handle, name
        os.close(handle)  # somebody took it for left behind, before it was held


def _usual_mode() -> int:
    """The permissions of a new file; a temporary one is for its owner only."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
