"""Detect whether ids in a large file may have leading zeros, as the ids 007 and 7 are different."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

CHUNK = 1 << 18  # bytes; small enough to stay in the cache
ZERO, NEWLINE, QUOTE = b'0\n"'


def may_have_leading_zeros(source: Path | bytes, separator: str) -> bool:
    """Whether any cell begins with 0 and another digit. Bytes are searched, as reading all ids as text costs more."""
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
            if len(at) and (text[at + 2] - np.uint8(ZERO) < 10).any():  # uint8 wraps around below "0"
                return True
            kept = min(size, 2)
            buffer[:kept] = text[size - kept :].copy()
    return False
