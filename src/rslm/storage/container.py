"""A container: arrays and a JSON header in one zip file whose last bytes are a checksum of all others.

A file that was truncated, or in which a single byte was changed, is refused. Reading runs no code from the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from rslm.runtime.version import __version__
from rslm.storage.atomic import atomic_bytes

HEADER = "header"
ZIP = b"PK\x03\x04"  # how a zip file begins
CHECKSUM_LENGTH = 64  # hexadecimal digits of SHA-256, stored as the comment that ends the zip file
BLOCK = 1 << 20  # bytes read at a time

Arrays = dict[str, NDArray[Any]]
Facts = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """What a container is for."""

    name: str  #: such as "model"
    version: int  #: of the format
    writers: str  #: the functions that write it, for messages
    remedy: str  #: what to do if a file is damaged, for messages

    @property
    def format(self) -> str:
        """The name of the format in the header."""
        return f"rslm {self.name}"


def plain_scalar(value: object) -> Any:
    """A NumPy scalar as a Python one."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is neither a number nor text, and cannot be written")


def write_container(
    path: str | os.PathLike[str], kind: Kind, facts: Facts, arrays: Arrays, *, repeated: bool = False
) -> None:
    """Write arrays and facts (values that JSON can represent). The file appears complete or not at all.

    Parameters
    ----------
    path : path
    kind : Kind
    facts : dict
    arrays : dict
    repeated : bool
        As in `atomic_bytes`.
    """
    header = {"format": kind.format, "version": kind.version, "library": __version__, **facts}
    packed = np.frombuffer(json.dumps(header, default=plain_scalar).encode(), dtype=np.uint8)
    with atomic_bytes(path, repeated=repeated) as file:
        # Not allow_pickle=False, which NumPy before 2.1 would store as one more array: there are no objects to pickle.
        assert not any(np.asarray(array).dtype.hasobject for array in arrays.values())
        named: dict[str, Any] = {HEADER: packed, **arrays}
        np.savez(file, **named)
        with zipfile.ZipFile(file, "a") as archive:
            archive.comment = bytes(CHECKSUM_LENGTH)  # a placeholder, as the checksum covers the comment's length
        checksum = _checksum(file)
        file.seek(-CHECKSUM_LENGTH, os.SEEK_END)
        file.write(checksum)


def read_container(path: str | os.PathLike[str], kind: Kind) -> tuple[Facts, Arrays]:
    """The header and the arrays of a file of this kind; a ValueError if it is of another kind or was changed."""
    name, header, intact = os.fspath(path), None, False
    arrays: Arrays = {}
    with Path(path).open("rb") as raw:  # outside of the try: a missing file or permission raises its own error
        if raw.read(len(ZIP)) == ZIP:
            try:
                arrays = _arrays(raw)
                header = json.loads(arrays.pop(HEADER).tobytes()) if HEADER in arrays else None
                intact = _checksum_matches(raw)
            except Exception as e:  # zipfile, zlib, struct and NumPy raise many types of exceptions
                raise ValueError(f"{name!r} is damaged. {kind.remedy}") from e
    if not isinstance(header, dict) or header.get("format") != kind.format:
        raise ValueError(f"{name!r} is not a {kind.name} of rslm; {kind.name}s are written by {kind.writers}")
    if header.get("version") != kind.version:
        raise ValueError(
            f"{name!r} has format version {header.get('version')!r}, written by rslm {header.get('library')}; this is "
            f"rslm {__version__}, which reads version {kind.version}. Use the version that wrote it, or: {kind.remedy}"
        )
    if not intact:
        raise ValueError(f"{name!r} has been changed since it was written. {kind.remedy}")
    return header, arrays


def _arrays(raw: IO[bytes]) -> Arrays:
    """The arrays of a file, none without a header. Compression is refused, so that no array is larger than the file."""
    raw.seek(0)
    with zipfile.ZipFile(raw) as archive:
        if f"{HEADER}.npy" not in archive.namelist():  # a zip file of something else
            return {}
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("compressed")
    raw.seek(0)
    with np.load(raw, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def _checksum_matches(raw: IO[bytes]) -> bool:
    raw.seek(-CHECKSUM_LENGTH, os.SEEK_END)
    return raw.read() == _checksum(raw)


def _checksum(file: IO[bytes]) -> bytes:
    """SHA-256 of all bytes before the checksum itself."""
    left, digest = file.seek(0, os.SEEK_END) - CHECKSUM_LENGTH, hashlib.sha256()
    file.seek(0)
    while left > 0:
        block = file.read(min(left, BLOCK))
        digest.update(block)
        left -= len(block)
    return digest.hexdigest().encode()
