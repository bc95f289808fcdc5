"""The MovieLens data sets of GroupLens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rslm.data import ObservedMatrix
from rslm.datasets.archives import only
from rslm.datasets.download import Progress
from rslm.datasets.lines import NEWLINE, Block, blocks, cell_ends, tenths, whole_numbers
from rslm.datasets.published import AnyPath, Published
from rslm.runtime.types import Indices32

Which = Literal["100k", "1m", "10m", "20m", "25m"]

HOST = "https://files.grouplens.org/datasets/movielens/"
TERMS = (
    "It may be used for research, with acknowledgement; commercial use needs permission, and so does passing it on "
    "unless its terms say otherwise: {}."
)
STARS = rb"0\.[5-9]|[1-4](\.\d)?|5(\.0)?"
LEAST, MOST = 5, 50  # ten times the stars


@dataclass(frozen=True)
class Form:
    """The format of the file of ratings: user, film, rating and time in a line."""

    file: str
    separator: str
    header: bool = False

    def record(self, rating: bytes = rb"\d(\.\d)?") -> re.Pattern[bytes]:
        cells = [rb"\d{1,9}", rb"\d{1,9}", rb"(%b)" % rating, rb"[^:,\t]*"]
        return re.compile(self.separator.encode().join(cells))

    @property
    def needed(self) -> str:
        return self.separator.join(["user", "film", "rating", "time"]).replace("\t", " ")


TABS, COLONS, COMMAS = Form("u.data", "\t"), Form("ratings.dat", "::"), Form("ratings.csv", ",", header=True)


def _published(which: str, readme: str, sha256: str, size: str, file: str) -> Published:
    name = f"ml-{which}"
    terms = TERMS.format(f"{HOST}{name}-README.{readme}")
    return Published(f"MovieLens {which.upper()}", f"{HOST}{name}.zip", sha256, size, terms, (file,))


# "latest" is left out: its content changes, so there is no fixed checksum.
SETS: dict[str, tuple[Published, Form]] = {
    which: (_published(which, readme, sha256, size, f"{folder}/{form.file}"), form)
    for which, readme, size, folder, form, sha256 in (
        ("100k", "txt", "5 MB", "ml-100k", TABS, "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229"),
        ("1m", "txt", "6 MB", "ml-1m", COLONS, "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20"),
        (
            "10m",
            "html",
            "66 MB",
            "ml-10M100K",
            COLONS,
            "813c411ccb6122564edfe752e7f80c4dcc5aa25fa94c93622f6877a7ba252862",
        ),
        ("20m", "html", "199 MB", "ml-20m", COMMAS, "96f243c338a8665f6bcc89c53edf6ee39162a846940de6b7c8c48aeada765ff3"),
        ("25m", "html", "262 MB", "ml-25m", COMMAS, "8b21cfb7eb1706b4ec0aac894368d90acf26ebdfb6aced3ebd4ad5bd1eb9c6aa"),
    )
}


def load_movielens(
    which: Which = "100k",
    path: AnyPath | None = None,
    *,
    download: bool = False,
    folder: AnyPath | None = None,
    progress: Progress | None = None,
) -> ObservedMatrix:
    """MovieLens ratings: users × films, with the ids of both.

    Parameters
    ----------
    which : {"100k", "1m", "10m", "20m", "25m"}
        Approximate number of ratings.
    path : path, optional
        The archive as published, the folder that it unpacks to, or the file of ratings (u.data, ratings.dat,
        ratings.csv), which may be compressed (gz, bz2, xz). No checksum is verified. If None, `folder` is searched.
    download : bool, default=False
        Whether to download the archive from files.grouplens.org to `folder` if it is not there. Its SHA-256 is
        verified after the download and whenever it is read from `folder`.
    folder : path, optional
        The folder of data sets; $RSLM_DATA if None, or else ~/.cache/rslm.
    progress : function of two numbers, optional
        Called during a download with the bytes received and the total (None if unknown).

    Returns
    -------
    ObservedMatrix
        Only users and films with a rating have a row or column.
    """
    if which not in SETS:
        raise ValueError(f"which is {which!r}, but must be one of {', '.join(map(repr, SETS))}.")
    published, form = SETS[which]
    at = published.find(path, download, folder, progress)
    inside = (at / published.unpacked[0]).parent  # if the parent folder was given, which may contain other sets
    with only(inside if inside.is_dir() else at, form.file) as (name, stream):
        parts = [_records(block, form, published.title) for block in blocks(stream, name)]
    if not any(len(users) for users, _, _ in parts):
        raise ValueError(f"{name} has no ratings in it, but those of {published.title} are needed.")
    users, films, ratings = (np.concatenate(column) for column in zip(*parts, strict=True))
    try:
        return ObservedMatrix.from_ratings(users, films, ratings / 10)
    except ValueError as error:  # a user has rated a film twice
        raise ValueError(f"{name}: {error}") from None


def _records(block: Block, form: Form, title: str) -> tuple[Indices32, Indices32, NDArray[np.uint8]]:
    """Users, films, and ratings times ten, of some lines."""
    needed = f"{form.needed} as in {title}"
    if form.header and block.first == 1:
        end = int(np.argmax(block.text == NEWLINE)) + 1
        if not block.text[:end].tobytes().startswith(b"userId,movieId,rating,timestamp"):
            block.refuse(form.record(), f"a header, and then {needed},")
        block = Block(block.name, 2, block.text[end:])
    step = len(form.separator)  # "::" counts as two separators, with an empty cell between them
    ends = cell_ends(block.text, form.separator.encode()[0], 3 * step + 1)
    if ends is None:
        block.refuse(form.record(), needed)
    lines = np.concatenate([[0], ends[:, -1] + 1])[:-1]
    starts = [lines, ends[:, step - 1] + 1, ends[:, 2 * step - 1] + 1]
    users, films = (whole_numbers(block.text, starts[k], ends[:, k * step]) for k in (0, 1))
    ratings = tenths(block.text, starts[2], ends[:, 2 * step])
    joined = all(np.array_equal(ends[:, k * step] + step - 1, ends[:, (k + 1) * step - 1]) for k in range(3))
    if users is None or films is None or ratings is None or not joined:
        block.refuse(form.record(), needed)
    if np.any((ratings < LEAST) | (ratings > MOST)):
        block.refuse(form.record(STARS), f"a rating from 0.5 to 5 as in {title}")
    return users, films, ratings
