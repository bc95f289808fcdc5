"""The encoding of a text, and its conversion to UTF-8, in blocks so that it need not fit in memory."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rslm.data.files.scratch import Scratch
from rslm.data.files.tools import blocks

MARKS = {  # byte order marks, the longer ones first: that of UTF-32 begins like one of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
NAMES = {"cp1252": "Windows-1252", "iso8859-1": "Latin-1", "utf-16": "UTF-16", "utf-32": "UTF-32"}
UTF8 = ("utf-8", "utf-8-sig")
UNDEFINED = (0x81, 0x8D, 0x8F, 0x90, 0x9D)  # in Windows-1252


@dataclass(frozen=True)
class Encoding:
    """The Python codec that reads a text, and how to report it."""

    codec: str
    said: str = ""  #: empty for UTF-8


def named(given: str) -> Encoding:
    """An encoding that the user names."""
    try:
        found = codecs.lookup(given)
    except (LookupError, ValueError):  # a name with NUL in it is a ValueError
        found = None
    if found is None or not getattr(found, "_is_text_encoding", True):
        raise ValueError(
            f"encoding {given!r} is not known; use one such as utf-8, latin-1, cp1252, utf-16 or shift_jis"
        )
    return Encoding(found.name, "" if found.name in UTF8 else f"in {NAMES.get(found.name, found.name)}")


def by_mark(begins: bytes) -> Encoding | None:
    """UTF-16 or UTF-32, if the text begins with a byte order mark."""
    codec = next((codec for mark, codec in MARKS.items() if begins.startswith(mark)), None)
    return None if codec is None else Encoding(codec, f"in {NAMES[codec]}")


def no_utf8(source: Path | bytes, name: str) -> Encoding:
    """The likely encoding of a text that is not valid UTF-8.

    If most characters beyond ASCII are valid UTF-8, the rest is damage: an error, and no guess.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    seen = np.zeros(256, dtype=np.int64)
    wrong = right = 0
    for block in blocks(source, name):
        if block.isascii() and not decoder.getstate()[0]:
            continue
        seen += np.bincount(np.frombuffer(block, dtype=np.uint8), minlength=256)
        signs = np.frombuffer(decoder.decode(block).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        strange = (signs >= 0xDC80) & (signs < 0xDD00)
        wrong += int(np.count_nonzero(strange))
        right += int(np.count_nonzero((signs >= 0x80) & ~strange))
    if right > wrong:
        raise not_in(
            source,
            name,
            "utf-8",
            "the rest is UTF-8; correct that line, or name the encoding (--encoding, or encoding= in Python)",
        )
    windows = seen[0x80:0xA0].any() and not seen[list(UNDEFINED)].any()
    codec = "cp1252" if windows else "iso8859-1"
    return Encoding(
        codec, f"in {NAMES[codec]} as it is not UTF-8 (another can be named by --encoding, or encoding= in Python)"
    )


def in_utf8(source: Path | bytes, name: str, encoding: Encoding, folder: Path | None) -> Path | bytes:
    """The same text in UTF-8, without a byte order mark."""
    decoder = codecs.getincrementaldecoder(encoding.codec)()
    scratch = Scratch(source, folder)
    try:
        for block in blocks(source, name):
            scratch.write(decoder.decode(block).encode("utf-8"))
        scratch.write(decoder.decode(b"", True).encode("utf-8"))
    except UnicodeError:
        raise not_in(source, name, encoding.codec, "name the encoding (--encoding, or encoding= in Python)") from None
    return scratch.done()


def not_in(source: Path | bytes, name: str, codec: str, remedy: str) -> ValueError:
    """An error with the first line of a text that is not in this encoding."""
    decoder = codecs.getincrementaldecoder(codec)()
    line = 1
    try:
        for block in blocks(source, name):
            for piece in block.splitlines(keepends=True):
                line += decoder.decode(piece).count("\n")
        decoder.decode(b"", True)
    except UnicodeDecodeError as error:
        byte = f"the byte {error.object[error.start]:#x}" if error.start < len(error.object) else "the end"
        shown = "UTF-8" if codec in UTF8 else NAMES.get(codec, codec)
        return ValueError(f"{name}, line {line}: {byte} is not {shown}; {remedy}")
    except UnicodeError as error:  # such as UTF-16 without a byte order mark
        return ValueError(f"{name} is not in {codec}: {error}; {remedy}")
    return ValueError(f"{name} is not in {codec}; {remedy}")
