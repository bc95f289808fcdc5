"""The ratings of the Netflix Prize."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rslm.data import ObservedMatrix
from rslm.data.convert import canonical
from rslm.datasets.archives import members, undamaged
from rslm.datasets.lines import NEWLINE, Block, blocks, whole_numbers
from rslm.datasets.published import AnyPath, existing
from rslm.runtime.types import Indices32, Indices64

FILES = re.compile(r"combined_data_\d+\.txt|mv_\d+\.txt")
LINE = re.compile(rb"\d{1,9}:|\d{1,7},\d,[^,:]*")
IN_STARS = re.compile(rb"\d+:|\d+,[1-5],.*")
NEEDED = "film: or user,rating,date as in the Netflix Prize"
COLON, COMMA, ZERO = b":,0"
USERS = 10_000_000  # all ids are smaller, so that a table indexed by them is small
WHERE = (
    "Netflix does not offer it for download without an account, so there is none here: get combined_data_1.txt to "
    "combined_data_4.txt from https://www.kaggle.com/datasets/netflix-inc/netflix-prize-data, whose terms apply "
    "(research, no redistribution), or give the folder training_set with mv_0000001.txt and so on."
)


@dataclass
class Ratings:
    """The ratings read so far, film by film, in the smallest possible types."""

    films: list[Indices32] = field(default_factory=list)
    begins: list[Indices64] = field(default_factory=list)  # number of ratings before each film
    users: list[Indices32] = field(default_factory=list)
    stars: list[NDArray[np.uint8]] = field(default_factory=list)
    count: int = 0


def load_netflix(path: AnyPath) -> ObservedMatrix:
    """The ratings of the Netflix Prize: users × films, with the ids of both, stars in single precision.

    Parameters
    ----------
    path : path
        A folder with files combined_data_*.txt or mv_*.txt, in it or in a folder of it; an archive of such files (zip,
        tar, tar.gz, also nf_prize_dataset.tar.gz with its nested archive); or one such file. Files may be compressed
        (gz, bz2, xz). There is no download: the data are available from Kaggle, with an account.

    Returns
    -------
    ObservedMatrix
        With all files 480,189 × 17,770, and 100,480,507 entries: 0.8 GB.
    """
    try:
        at = existing(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error} {WHERE}") from None
    ratings = Ratings()
    with undamaged(at):
        for name, stream in members(at, lambda n: FILES.fullmatch(n) is not None):
            for block in blocks(stream, name):
                _add(ratings, block)
    if not ratings.count:
        raise FileNotFoundError(f"{at} has no ratings of the Netflix Prize in it. {WHERE}")
    try:
        return _matrix(ratings)
    except ValueError as error:  # a film occurs twice, or a user has rated it twice
        raise ValueError(f"{at}: {error}") from None


def _add(ratings: Ratings, block: Block) -> None:
    """Add the ratings of some lines. They belong to the last film before them, which may be in an earlier block."""
    text = block.text
    at_newline = text == NEWLINE
    ends = np.flatnonzero(at_newline | (text == COMMA))  # a film's line has one cell, a rating's three
    colons = np.flatnonzero(text == COLON)
    heads = np.searchsorted(ends, colons)
    before = heads - np.arange(len(heads))  # number of cells of ratings before each film
    if block.first == 1 and not (len(heads) and heads[0] == 0):
        block.refuse(re.compile(rb"\d{1,9}:"), "film: in the first line, as in the Netflix Prize,")
    of_ratings = np.ones(len(ends), dtype=np.bool_)
    of_ratings[heads] = False
    cells = ends[of_ratings]
    if len(cells) % 3 or np.any(before % 3) or np.any(text[colons + 1] != NEWLINE):
        block.refuse(LINE, NEEDED)
    cells = cells.reshape(-1, 3)
    starts = np.concatenate([[0], ends[:-1] + 1])
    films = whole_numbers(text, starts[heads], colons)
    users = whole_numbers(text, starts[of_ratings][::3], cells[:, 0])
    stars = text[cells[:, 0] + 1] - np.uint8(ZERO)
    lines = np.count_nonzero(at_newline) == len(cells) + len(heads) and at_newline[cells[:, 2]].all()
    if films is None or users is None or not lines or np.any(cells[:, 1] - cells[:, 0] != 2) or np.any(stars > 9):
        block.refuse(LINE, NEEDED)
    if len(users) and users.max() >= USERS:
        block.refuse(LINE, NEEDED)
    if np.any((stars < 1) | (stars > 5)):
        block.refuse(IN_STARS, "a rating from 1 to 5 as in the Netflix Prize")
    ratings.films.append(films)
    ratings.begins.append(ratings.count + before // 3)
    ratings.users.append(users)
    ratings.stars.append(stars)
    ratings.count += len(users)


def _matrix(ratings: Ratings) -> ObservedMatrix:
    """The ratings by users. They were read film by film, so that one transposition is enough, without sorting."""
    films, begins = np.concatenate(ratings.films), np.concatenate(ratings.begins)
    different, first = np.unique(films, return_index=True)
    if len(different) < len(films):
        twice = np.delete(films, first)[0]
        raise ValueError(
            f"film {twice} occurs twice. Give either the files combined_data_*.txt or the folder training_set, not "
            "both."
        )
    present = np.zeros(USERS, dtype=np.bool_)
    for part in ratings.users:
        present[part] = True
    number = np.cumsum(present, dtype=np.int32) - np.int32(1)
    users = np.flatnonzero(present).astype(np.int32)
    index = np.empty(ratings.count, dtype=np.int32)
    end = ratings.count
    while ratings.users:  # free each part after it has been used
        part = ratings.users.pop()
        index[end - len(part) : end] = number[part]
        end -= len(part)
    stars = np.concatenate(ratings.stars)
    ratings.stars.clear()
    indptr = np.append(begins, ratings.count).astype(np.int32)
    by_film = sparse.csc_array((stars, index, indptr), shape=(len(users), len(films)))
    del stars, index
    by_user: Any = by_film.tocsr()  # keeps the order of the films within a user
    del by_film
    if not np.array_equal(films, different):  # films may be in any order in an archive
        by_user.indices = np.argsort(first).argsort().astype(np.int32)[by_user.indices]
        by_user.has_sorted_indices = False
        by_user.sort_indices()
    values = by_user.data.astype(np.float32)
    entries = canonical(by_user.indptr, by_user.indices, values, "error", users, different)
    return ObservedMatrix(*entries, by_user.shape, users, different)
