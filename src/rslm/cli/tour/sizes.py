"""Sizes of the parts of the demonstration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Sizes of the data. With the defaults, all parts together take less than half a minute on two cores."""

    shrink: int = 2  #: factor by which each side of the photograph, 427 × 640, is reduced
    users: int = 2000
    items: int = 1200
    ratings: int = 200_000
    months: int = 216  #: of the series, including those that are held back
    ahead: int = 36  #: months that are held back
    tasks: int = 120
    rows: tuple[int, ...] = (6, 12, 24, 48)  #: of every task, in successive trials
    shown: int = 12  #: the trial shown in the table
