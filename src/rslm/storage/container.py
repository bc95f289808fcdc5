"""Arrays and a JSON header in one zip file, sealed: its last bytes are a checksum of all others.

A file that was cut, or changed by a single byte, is refused; reading one runs no code from it.
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
from rslm.storage.atomic import appearing_bytes

HEADER = "header"
ZIP = b"PK\x03\x04"  # how a zip file begins
SEAL = 64  # hexadecimal digits of SHA-256; they are the zip file's comment, with which it ends
BLOCK = 1 << 20  # bytes that are read at a time

Arrays = dict[str, NDArray[Any]]
Facts = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """What such a file is for."""

    name: str  #: as in "model"
    version: int  #: of its format
    writers: str  #: what writes it
    remedy: str  #: what to do with one that is damaged

    @property
    def format(self) -> str:
        """How the header names it."""
        return f"rslm {self.name}"


def plain_scalar(value: object) -> Any:
    """A number of NumPy's as one of Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is neither a number nor a text, and cannot be written")


def write_sealed(
    path: str | os.PathLike[str], kind: Kind, facts: Facts, arrays: Arrays, *, over_and_over: bool = False
) -> None:
    """Write facts, which JSON can hold, and arrays. The file appears whole or not at all.

    Parameters
    ----------
    path : path
    kind : Kind
    facts : dict
    arrays : dict
    over_and_over : bool
        As in `appearing_bytes`.
    """
    header = {"format": kind.format, "version": kind.version, "library": __version__, **facts}
    packed = np.frombuffer(json.dumps(header, default=plain_scalar).encode(), dtype=np.uint8)
    with appearing_bytes(path, over_and_over=over_and_over) as file:
        np.savez(file, allow_pickle=False, **{HEADER: packed}, **arrays)
        with zipfile.ZipFile(file, "a") as archive:
            archive.comment = bytes(SEAL)  # the room for it is sealed too
        seal = _seal(file)
        file.seek(-SEAL, os.SEEK_END)
        file.write(seal)


def read_sealed(path: str | os.PathLike[str], kind: Kind) -> tuple[Facts, Arrays]:
    """The header and the arrays of a file of this kind; a ValueError if it is another, or not as it was written."""
    name, header, whole = os.fspath(path), None, False
    arrays: Arrays = {}
    with Path(path).open("rb") as raw:  # a missing file or permission is said as such
        if raw.read(len(ZIP)) == ZIP:
            try:
                arrays = _arrays(raw)
                header = json.loads(arrays.pop(HEADER).tobytes()) if HEADER in arrays else None
                whole = _is_whole(raw)
            except Exception as e:  # zipfile, zlib, struct and NumPy have a dozen ways to say it
                raise ValueError(f"{name!r} is damaged. {kind.remedy}") from e
    if not isinstance(header, dict) or header.get("format") != kind.format:
        raise ValueError(f"{name!r} is not a {kind.name} of rslm; {kind.name}s are written by {kind.writers}")
    if header.get("version") != kind.version:
        raise ValueError(
            f"{name!r} has format version {header.get('version')!r}, written by rslm {header.get('library')}; this is "
            f"rslm {__version__}, which reads version {kind.version}. Use the same version of rslm for both."
        )
    if not whole:
        raise ValueError(f"{name!r} has been changed since it was written. {kind.remedy}")
    return header, arrays


def _arrays(raw: IO[bytes]) -> Arrays:
    """What a file holds. Nothing is compressed, so that nothing is larger than the file."""
    raw.seek(0)
    with zipfile.ZipFile(raw) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("compressed")
    raw.seek(0)
    with np.load(raw, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def _is_whole(raw: IO[bytes]) -> bool:
    raw.seek(-SEAL, os.SEEK_END)
    return raw.read() == _seal(raw)


def _seal(file: IO[bytes]) -> bytes:
    """SHA-256 of all bytes but the last ones, where it belongs."""
    left, digest = file.seek(0, os.SEEK_END) - SEAL, hashlib.sha256()
    file.seek(0)
    while left > 0:
        block = file.read(min(left, BLOCK))
        digest.update(block)
        left -= len(block)
    return digest.hexdigest().encode()
