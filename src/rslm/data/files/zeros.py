"""Whether ids that look like whole numbers may have leading zeros somewhere in a large file: 007 is not 7."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

CHUNK = 1 << 18  # bytes; small enough to stay in the cache
ZERO, NEWLINE, QUOTE = b'0\n"'


def may_have_leading_zeros(source: Path | bytes, separator: str) -> bool:
    """Whether any cell begins with 0 and another digit. Looked for in the bytes: text of all ids would cost more."""
    memory = bytearray(CHUNK)
    buffer = np.frombuffer(memory, dtype=np.uint8)
    buffer[0] = NEWLINE  # before the first cell
    kept = 1
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb", buffering=0) as file:
        while read := file.readinto(memoryview(memory)[kept:]):
            size = kept + read
            text = buffer[:size]
            before = text[:-2]
            begins = (before == ord(separator)) | (before == NEWLINE) | (before == QUOTE)
            begins &= text[1:-1] == ZERO
            at = np.flatnonzero(begins)
            if len(at) and (text[at + 2] - np.uint8(ZERO) < 10).any():  # below the digits it wraps around
                return True
            kept = min(size, 2)
            buffer[:kept] = text[size - kept :].copy()
    return False
