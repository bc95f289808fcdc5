"""How large the parts of the demonstration are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Sizes of the data. As they are, all parts together take less than half a minute on two cores."""

    shrink: int = 2  #: pixels of the photograph, 427 × 640, along each side of one that is repaired
    users: int = 2000
    items: int = 1200
    ratings: int = 200_000
    months: int = 216  #: of the series, those that are held back included
    ahead: int = 36  #: months that are held back
    tasks: int = 120
    rows: tuple[int, ...] = (6, 12, 24, 48)  #: of every task, in one trial after the other
    shown: int = 12  #: the one of them that is in the table
