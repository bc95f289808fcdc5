"""Files in folders and archives, read where they lie: nothing is ever unpacked."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

ZIP, COMPRESSED = b"PK\x03\x04", (b"\x1f\x8b", b"BZh", b"\xfd7zXZ")
MARK = slice(257, 262)  # where a tar archive says that it is one

Wanted = Callable[[str], bool]  # of a name without folders
Found = Generator[tuple[str, IO[bytes]], None, None]


def members(path: Path, wanted: Wanted) -> Found:
    """Names and contents of all wanted files: in a folder or one below it, in an archive, or the one file given."""
    if path.is_dir():
        files = [p for p in (*path.glob("*"), *path.glob("*/*")) if wanted(p.name) and p.is_file()]
        for found in sorted(files, key=lambda p: (len(p.parts), p)):
            with found.open("rb") as stream:
                yield str(found), stream
        return
    with path.open("rb") as file:
        begins = file.read(512)
        file.seek(0)
        if begins.startswith(ZIP):
            yield from _of_zip(str(path), file, wanted)
        elif begins.startswith(COMPRESSED) or begins[MARK] == b"ustar":
            yield from _of_tar(str(path), file, wanted)
        else:
            yield str(path), file


@contextmanager
def only(path: Path, name: str) -> Iterator[tuple[str, IO[bytes]]]:
    """The one file of this name; of several, the first. A file given as itself may have any name."""
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
    """Tells of broken archives in a sentence, wherever reading stumbles over it."""
    try:
        yield
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError) as error:
        raise ValueError(f"{path} is a damaged archive, or none: {error}. Fetch it again.") from None


def _of_zip(path: str, file: IO[bytes], wanted: Wanted) -> Found:
    with zipfile.ZipFile(file) as archive:
        infos = [i for i in archive.infolist() if not i.is_dir() and wanted(PurePosixPath(i.filename).name)]
        for info in sorted(infos, key=lambda i: (i.filename.count("/"), i.filename)):
            with archive.open(info) as stream:
                yield f"{path}/{info.filename}", stream


def _of_tar(path: str, file: IO[bytes], wanted: Wanted) -> Found:
    """In the order of the archive, as going back would mean to decompress all again."""
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() else None  # links lead elsewhere
            if stream is None:
                continue
            name = PurePosixPath(member.name).name
            if wanted(name):
                yield f"{path}/{member.name}", stream
            elif name.endswith(".tar"):  # as in the archive of the Netflix Prize
                yield from _of_tar(f"{path}/{member.name}", stream, wanted)
