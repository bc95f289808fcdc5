"""Data sets that others publish: where they lie on this machine, or how to get them."""

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
    """A file that its publisher offers for download, and the terms on which he does."""

    title: str
    url: str
    sha256: str
    size: str  #: for people
    licence: str  #: the terms in short, and where they are told in full
    unpacked: tuple[str, ...]  #: what of it may lie in the folder of data sets otherwise, files or folders

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
        """Where to read it: at `path`, or in the folder of data sets, to which it is downloaded on request."""
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
                f"{self.title} is not here. {self.licence} Pass download=True to fetch {self.size} from {self.url} "
                f"into {home}, or path=… if you have it elsewhere."
            )
        logger.warning("%s: %s", self.title, self.licence)
        fetch(self.url, file, self.sha256, progress)
        return file

    def _check(self, file: Path) -> None:
        """A download that has changed since is refused; a file that the user names is not checked."""
        found = checksum(file)
        if found != self.sha256:
            raise ValueError(
                f"{file} is not what {self.url} is known to be: its SHA-256 is {found}, but {self.sha256} is expected. "
                "Delete it and pass download=True, or pass it as path=… to read it as it is."
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
        raise FileNotFoundError(
            f"There is no {found}. Is the path right? It is taken from {Path.cwd()} if it is relative."
        )
    return found
