"""Download a file and verify its checksum; it appears complete or not at all."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path

from rslm.storage.atomic import atomic_bytes

Progress = Callable[[int, int | None], None]  #: called with the bytes received, and the total if known

TIMEOUT = 30.0  # seconds without data after which a download fails
BLOCK = 1 << 18  # bytes


def fetch(url: str, target: Path, sha256: str, progress: Progress | None = None) -> None:
    """Download `url` to `target`, which appears only if it is complete and has this SHA-256."""
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, done = hashlib.sha256(), 0
    with atomic_bytes(target) as file:
        for block, total in _blocks(url, target):
            file.write(block)
            digest.update(block)
            done += len(block)
            if progress is not None:
                progress(done, total)
        if digest.hexdigest() != sha256:
            raise ValueError(
                f"The file from {url} is not the expected one: its SHA-256 is {digest.hexdigest()}, but {sha256} is "
                f"expected. Nothing was kept. {by_hand(url, target)} if you trust it."
            )


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def by_hand(url: str, target: Path) -> str:
    return f"Download it by hand from {url} and give path='…/{target.name}'"


def _blocks(url: str, target: Path) -> Iterator[tuple[bytes, int | None]]:
    """The content in blocks, each with the total number of bytes if the server sends it."""
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers={"User-Agent": "rslm"}), timeout=TIMEOUT
        ) as answer:
            length = answer.headers.get("Content-Length")
            total, done = (int(length) if length else None), 0
            while block := answer.read(BLOCK):
                done += len(block)
                yield block, total
        if total is not None and done < total:
            raise ConnectionError(f"the connection ended after {done} of {total} bytes")
    except urllib.error.HTTPError as error:
        why = f"the server answered {error.code} {error.reason}"
        error.close()
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)  # urllib wraps the underlying error
        timed_out = isinstance(reason, TimeoutError)
        why = f"the server was silent for {TIMEOUT:g} seconds" if timed_out else str(reason) or type(reason).__name__
    else:
        return
    raise ConnectionError(f"{target.name} could not be downloaded: {why}. Try again later, or: {by_hand(url, target)}.")
