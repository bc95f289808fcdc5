"""What a search tries: settings, in the order in which they were tried, and the one that was found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from rslm.estimators.completion.intervals import Intervals
from rslm.estimators.completion.layout import Layout
from rslm.runtime.types import Floats


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

    def numbers(self) -> dict[str, float]:
        """As in the table of all trials."""
        first = {"rank": float(self.rank), "C": self.C, "weighting": self.weighting}
        return first | {"row_effects": self.of_rows, "ridges": self.ridges, "noise_units": self.by_noise}

    @classmethod
    def of_numbers(cls, numbers: dict[str, float]) -> Setting:
        """From a line of that table."""
        C, rank, weighting = numbers["C"], int(numbers["rank"]), numbers["weighting"]
        return cls(C, rank, weighting, bool(numbers["row_effects"]), numbers["ridges"], bool(numbers["noise_units"]))


@dataclass
class Trials:
    """All settings that were tried, in order, with their errors on held-out entries."""

    rows: list[dict[str, float]] = field(default_factory=list)

    def add(self, setting: Setting, error: float, seconds: float) -> None:
        self.rows.append(setting.numbers() | {"error": error, "seconds": seconds})

    def table(self) -> dict[str, Floats]:
        """One array for each number of a setting, and for error and seconds."""
        return {name: np.array([row[name] for row in self.rows], dtype=np.float64) for name in self.rows[0]}


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
    alone: bool = False  #: whether effects alone predict as well
    intervals: Intervals | None = None  #: from the errors of the held-out entries
