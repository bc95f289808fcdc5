"""Published data sets: where they are on this machine, or how to get them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from rslm.datasets.download import Progress, checksum, fetch
from rslm.runtime.log import logger

AnyPath = str | PathLike[str]


@dataclass(frozen=True)
class Published:
    """A file that its publisher offers for download, and the terms of use."""

    title: str
    url: str
    sha256: str
    size: str  #: for messages
    licence: str  #: a summary of the terms, and where to read them in full
    unpacked: tuple[str, ...]  #: other files or folders in which the folder of data sets may contain it

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[-1]

    def find(
        self,
        path: AnyPath | None = None,
        download: bool = False,
        folder: AnyPath | None = None,
        progress: Progress | None = None,
    ) -> Path:
        """The path to read: `path` if given, else in the folder of data sets, to which it is downloaded on request."""
        if path is not None:
            return existing(path)
        home = data_folder(folder)
        file = home / self.name
        if file.exists():
            self._check(file)
            return file
        at = first_of(home, self.unpacked)
        if at is not None:
            return at
        if not download:
            raise FileNotFoundError(
                f"{self.title} is not in {home}. {self.licence} Pass download=True to download {self.size} from "
                f"{self.url}, or path=… if you have it elsewhere."
            )
        logger.warning("%s: %s", self.title, self.licence)
        fetch(self.url, file, self.sha256, progress)
        return file

    def _check(self, file: Path) -> None:
        """Refuse a download that was changed later; a file that the user names is not checked."""
        found = checksum(file)
        if found != self.sha256:
            raise ValueError(
                f"{file} is not the file that {self.url} offers: its SHA-256 is {found}, but {self.sha256} is "
                "expected. Delete it and pass download=True, or pass it as path=… to read it without this check."
            )


def data_folder(folder: AnyPath | None = None) -> Path:
    """The folder of data sets: the one given, or $RSLM_DATA, or ~/.cache/rslm."""
    given = folder if folder is not None else os.environ.get("RSLM_DATA") or "~/.cache/rslm"
    return Path(given).expanduser()


def first_of(folder: Path, names: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in names if (folder / name).exists()), None)


def existing(path: AnyPath) -> Path:
    found = Path(path).expanduser()
    if not found.exists():
        raise FileNotFoundError(f"{found} does not exist. Check the path; a relative one starts at {Path.cwd()}.")
    return found
