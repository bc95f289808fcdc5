"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def appearing(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """A text file that takes its name when it is complete."""
    target = Path(path)
    with tempfile.NamedTemporaryFile(
        "w", dir=target.parent, prefix=f".{target.name}.", delete=False, encoding="utf-8", newline=""
    ) as file:
        try:
            yield file
            file.close()
            mask = os.umask(0)  # a temporary file is for its owner only
            os.umask(mask)
            Path(file.name).chmod(0o666 & ~mask)
            Path(file.name).replace(target)
        except BaseException:
            file.close()
            Path(file.name).unlink(missing_ok=True)
            raise
