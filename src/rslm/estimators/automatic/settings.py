"""What a search tries: settings, in the order in which they were tried, and the one that was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rslm.estimators.completion.layout import Layout
from rslm.runtime.types import Floats

COLUMNS = ("rank", "C", "weighting", "row_effects", "ridges", "noise_units", "error", "seconds")


@dataclass(frozen=True)
class Setting:
    """What a fit needs to know."""

    C: float
    rank: int
    weighting: float
    of_rows: bool = True  #: whether rows have effects
    ridges: float = 1.0  #: factor of the ridges of the effects
    by_noise: bool = False  #: whether every feature is divided by the size of its noise

    def applied(self, layout: Layout, noise: Floats | None) -> Layout:
        """The layout with this setting; `noise` is the size of the noise of every feature."""
        ridges = layout.ridges
        if ridges is not None:
            ridges = ridges.times(self.ridges)
            ridges = ridges if self.of_rows else replace(ridges, rows=None)
        units = noise if self.by_noise else layout.units
        return replace(layout, C=self.C, weighting=self.weighting, ridges=ridges, units=units)

    def numbers(self) -> tuple[float, ...]:
        """As in the table of all trials."""
        return float(self.rank), self.C, self.weighting, float(self.of_rows), self.ridges, float(self.by_noise)

    @classmethod
    def of_numbers(cls, numbers: Sequence[float]) -> Setting:
        """From the first numbers of a line of that table."""
        rank, C, weighting, of_rows, ridges, by_noise = numbers[:6]
        return cls(C, int(rank), weighting, bool(of_rows), ridges, bool(by_noise))


@dataclass
class Trials:
    """All settings that were tried, in order, with their errors on held-out entries."""

    rows: list[tuple[float, ...]] = field(default_factory=list)

    def add(self, setting: Setting, error: float, seconds: float) -> None:
        self.rows.append((*setting.numbers(), error, seconds))

    def table(self) -> dict[str, Floats]:
        """One array for each of rank, C, weighting, row_effects, ridges, noise_units, error and seconds.

        row_effects is 1 where rows had effects, ridges the factor of the first ridges of the effects, and noise_units 1
        where features were divided by the size of their noise.
        """
        columns = np.array(self.rows, dtype=np.float64).reshape(-1, len(COLUMNS)).T.copy()
        return dict(zip(COLUMNS, columns, strict=True))


@dataclass
class Found:
    """The best setting, the errors of what it is compared with, and where a fit with it may start."""

    setting: Setting
    error: float
    path: Trials
    start: Floats | None
    of_mean: float
    of_effects: float
    noise: Floats | None = None  #: the size of the noise of every feature, if the setting needs it
