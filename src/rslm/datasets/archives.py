"""Read files in folders and archives, also compressed ones, without unpacking anything to disk."""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

ZIP = b"PK\x03\x04", b"PK\x05\x06"  # the second one if the archive is empty
COMPRESSED: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
}
SUFFIXES = ".gz", ".bz2", ".xz"
HEAD = 512  # bytes of a header in a tar archive
MARK = slice(257, 262)  # position of its magic number, which very old archives lack

Wanted = Callable[[str], bool]  # of a name without folders
Found = Generator[tuple[str, IO[bytes]], None, None]


def members(path: Path, wanted: Wanted) -> Found:
    """Names and contents of all wanted files: in a folder and the folders in it, in an archive, or the one file given.

    A file may be compressed, unless it is in an archive; in a folder its suffix must say so.
    """
    if path.is_dir():
        files = [p for p in (*path.glob("*"), *path.glob("*/*")) if wanted(_uncompressed(p).name) and p.is_file()]
        present = set(files)
        for found in sorted(files, key=lambda p: (len(p.parts), p)):
            if _uncompressed(found) == found or _uncompressed(found) not in present:  # skip a compressed copy
                with found.open("rb") as file:
                    yield str(found), _plain(file)
        return
    with path.open("rb") as file:
        if _begins(file).startswith(ZIP):
            yield from _of_zip(str(path), file, wanted)
        elif _is_tar(_begins(_plain(file))):
            file.seek(0)
            yield from _of_tar(str(path), file, wanted)
        else:
            file.seek(0)
            yield str(path), _plain(file)


@contextmanager
def only(path: Path, name: str) -> Iterator[tuple[str, IO[bytes]]]:
    """The file of this name, the first one if there are several. If `path` is a file, its name does not matter."""
    with undamaged(path), closing(members(path, lambda n: n == name)) as files:
        found = next(files, None)
        if found is None:
            raise FileNotFoundError(
                f"{path} has no {name} in it. Give {name} itself, the folder that it is in, or the archive that it "
                "was published in."
            )
        yield found


@contextmanager
def undamaged(path: Path) -> Iterator[None]:
    """Turn the many errors of damaged archives into one ValueError, wherever in the reading they occur."""
    try:
        yield
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError) as error:
        # Damaged archives: bz2 raises a plain OSError without errno, zipfile seeks to invalid positions (EINVAL).
        # A missing file or a broken disk has another errno, or a subclass of OSError.
        plain = type(error) in (OSError, gzip.BadGzipFile)
        if isinstance(error, OSError) and (not plain or error.errno not in (None, errno.EINVAL)):
            raise
        raise ValueError(f"{path} is damaged, or not an archive: {error}. Download it again.") from None


def _uncompressed(path: Path) -> Path:
    return path.with_suffix("") if path.suffix in SUFFIXES else path


def _begins(file: IO[bytes]) -> bytes:
    begins = file.read(HEAD)
    file.seek(0)
    return begins


def _plain(file: IO[bytes]) -> IO[bytes]:
    """The content of a compressed file; any other file unchanged."""
    begins = _begins(file)
    return next((opened(file) for mark, opened in COMPRESSED.items() if begins.startswith(mark)), file)


def _is_tar(begins: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(begins, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return begins[MARK] == b"ustar" or begins == bytes(HEAD)  # a damaged one, an empty one
    return True


def _of_zip(path: str, file: IO[bytes], wanted: Wanted) -> Found:
    with _readable(path), zipfile.ZipFile(file) as archive:
        infos = [i for i in archive.infolist() if not i.is_dir() and wanted(PurePosixPath(i.filename).name)]
        for info in sorted(infos, key=lambda i: (i.filename.count("/"), i.filename)):
            name = f"{path}/{info.filename}"
            with _readable(name):
                stream = archive.open(info)
            with stream:
                yield name, stream


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn errors about passwords and unknown compression methods into a ValueError."""
    try:
        yield
    except RuntimeError as error:  # including NotImplementedError
        raise ValueError(f"{name}: {error}. Unpack it with another program, and give the folder.") from None


def _of_tar(path: str, file: IO[bytes], wanted: Wanted) -> Found:
    """The wanted files in the order of the archive, as seeking back would decompress everything again."""
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() else None  # links are skipped
            if stream is None:
                continue
            name = PurePosixPath(member.name).name
            if wanted(name):
                yield f"{path}/{member.name}", stream
            elif name.endswith(".tar"):  # as in the archive of the Netflix Prize
                yield from _of_tar(f"{path}/{member.name}", stream, wanted)
