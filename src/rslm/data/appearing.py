"""Files that appear whole or not at all."""

from __future__ import annotations

import glob
import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


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
        Whether one process writes it many times. Until it is complete it then has a name that tells the process,
        `unfinished(path)`: if that was killed, `remove_left_behind` finds the file.
    """
    with _appearing(path, "w+b", over_and_over) as file:
        yield file


def unfinished(target: Path) -> Path:
    """What a file that this process writes over and over is called until it is complete."""
    return target.with_name(f".{target.name}.{platform.node()}.{os.getpid()}.unfinished")


def remove_left_behind(target: Path) -> None:
    """Remove what processes of this machine that do not run any more have left unfinished."""
    name = f".{target.name}.{platform.node()}."
    for other in target.parent.glob(f"{glob.escape(name)}*.unfinished"):
        pid = other.name.removeprefix(name).removesuffix(".unfinished")
        if pid.isdecimal() and not _runs(int(pid)):
            other.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    """Whether there is such a process; where that cannot be asked without harm, yes."""
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
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
        handle, name = _opened(unfinished(target)) if over_and_over else _temporary(target)
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
    except OSError as error:  # which may name the temporary file, or none
        if error.errno is None:
            raise
        raise type(error)(error.errno, f"{error.strerror}; nothing was written", str(path)) from None


def _temporary(target: Path) -> tuple[int, str]:
    return tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")


def _opened(path: Path) -> tuple[int, str]:
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    return os.open(path, flags, 0o600), str(path)


def _usual_mode() -> int:
    """The permissions of a new file; a temporary one is for its owner only."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
