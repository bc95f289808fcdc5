"""Refuse files that are not tables: archives, and text of other kinds. The error says what it is and what to do."""

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
        raise ValueError(f"{name} is compressed by {kind}; unpack it first")
    text = sample.removeprefix(b"\xef\xbb\xbf").lstrip()
    markup = MARKUP.match(text)
    if markup is not None:
        kind = "XML" if markup[1].startswith(b"?") else "HTML"
        raise ValueError(f"{name} is {kind}, not a table; a table is needed, such as CSV")
    if text.startswith((b"{", b"[")) and (OBJECT.match(text) or _parses(text)):
        raise ValueError(f"{name} is JSON; a table is needed, such as CSV")


def refuse_archive(source: Path | bytes, name: str) -> None:
    """Refuse a zip file unless it is an npz file."""
    try:
        with zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as archive:
            members = archive.namelist()
    except Exception:  # zipfile raises several types of exceptions
        return  # the reader of npz files reports the damage
    if all(member.endswith(".npy") for member in members):
        return
    if any(member.startswith("xl/") for member in members):
        raise ValueError(f"{name} is a spreadsheet; save it as CSV")
    raise ValueError(f"{name} is a zip archive ({', '.join(members[:3])}); unpack it first")


def _parses(text: bytes) -> bool:
    """Whether the first line is JSON, such as [1, 2, 3]."""
    try:
        json.loads(text.split(b"\n", 1)[0])
    except ValueError:
        return False
    return True
