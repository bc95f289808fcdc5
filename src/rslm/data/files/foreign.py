"""Files that hold no table: packed ones, and text of other kinds. The error says what it is and what to do."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path

PACKED = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "Zstandard", b"7z\xbc\xaf\x27\x1c": "7-Zip"}
MARKUP = re.compile(rb"<(!doctype\s+html|html|head|body|table|\?xml)", re.IGNORECASE)
OBJECT = re.compile(rb'(\[\s*)?\{\s*("[^"]*"\s*:|\}|\Z)|\[\s*\[')


def refuse_foreign(sample: bytes, name: str) -> None:
    """`sample`: the beginning of a file that should be a text table."""
    kind = next((kind for magic, kind in PACKED.items() if sample.startswith(magic)), None)
    if kind is not None:
        raise ValueError(f"{name} is packed by {kind}; unpack it first")
    text = sample.removeprefix(b"\xef\xbb\xbf").lstrip()
    markup = MARKUP.match(text)
    if markup is not None:
        kind = "XML" if markup[1].startswith(b"?") else "HTML"
        raise ValueError(f"{name} is {kind}, a page and no table; a table is needed, such as CSV")
    if text.startswith((b"{", b"[")) and (OBJECT.match(text) or _parses(text)):
        raise ValueError(f"{name} is JSON; a table is needed, such as CSV")


def refuse_archive(source: Path | bytes, name: str) -> None:
    """A zip file is read only if it is one of NumPy, an npz."""
    try:
        with zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as archive:
            members = archive.namelist()
    except Exception:  # of zipfile, which has several ways to say it
        return  # its reader says that it is damaged
    if all(member.endswith(".npy") for member in members):
        return
    if any(member.startswith("xl/") for member in members):
        raise ValueError(f"{name} is a spreadsheet; save it as CSV")
    raise ValueError(f"{name} is a zip archive ({', '.join(members[:3])}); unpack it first")


def _parses(text: bytes) -> bool:
    """A list in the first line, such as [1, 2, 3]."""
    try:
        json.loads(text.split(b"\n", 1)[0])
    except ValueError:
        return False
    return True
