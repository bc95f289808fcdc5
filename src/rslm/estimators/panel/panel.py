"""A panel: outcomes of units over periods, and which of them are treated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from rslm.data.labels import Ids, show_id
from rslm.estimators.panel.two_way import Flags
from rslm.runtime.magnitudes import LARGEST
from rslm.runtime.types import Floats, Indices64

NEVER = -1  # the first treated period of a unit that is never treated


@dataclass(frozen=True, eq=False)
class Panel:
    """Outcomes of units × periods; NaN is missing."""

    outcomes: Floats
    treated: Flags
    units: Ids | None = None  #: None if positions serve as ids
    periods: Ids | None = None
    covariates: Floats | None = None  #: (k, units, periods)

    @property
    def shape(self) -> tuple[int, int]:
        return self.outcomes.shape[0], self.outcomes.shape[1]

    @property
    def control(self) -> Flags:
        """The observed entries without treatment, from which the counterfactual is learned."""
        return np.asarray(~np.isnan(self.outcomes) & ~self.treated)

    @property
    def affected(self) -> Flags:
        """The observed entries with treatment, whose effects are estimated."""
        return np.asarray(~np.isnan(self.outcomes) & self.treated)

    @property
    def first(self) -> Indices64:
        """The first treated period of each unit, or `NEVER`."""
        return np.where(self.treated.any(axis=1), self.treated.argmax(axis=1), NEVER)

    @property
    def relative(self) -> Indices64:
        """Periods since the first treated one: 0 there, negative before; 0 for units that are never treated."""
        first = self.first[:, None]
        return np.where(first == NEVER, 0, np.arange(self.shape[1]) - first)

    def unit(self, i: Any) -> str:
        return f"unit {show_id(self.units, int(i))}"

    def period(self, t: Any) -> str:
        return f"period {show_id(self.periods, int(t))}"

    def checked(self) -> Panel:
        """The panel; an error where it does not determine a counterfactual of every treated entry."""
        n, T = self.shape
        if n < 2 or T < 2:
            raise ValueError(f"a panel needs at least 2 units and 2 periods; got {n} × {T}")
        wrong = np.argwhere(np.abs(self.outcomes) > LARGEST)  # infinite ones included
        if len(wrong):
            i, t = wrong[0]
            raise ValueError(
                f"outcomes must be finite, at most {LARGEST:g} in size; that of {self.unit(i)} in {self.period(t)} is "
                f"{self.outcomes[i, t]}. NaN stands for a missing outcome"
            )
        if not self.treated.any():
            raise ValueError(
                f"no entry of the {n} × {T} panel is treated, so there is no effect to estimate; give treated=True "
                "where a unit has the treatment"
            )
        if not self.affected.any():
            i, t = np.argwhere(self.treated)[0]
            raise ValueError(
                f"all outcomes under treatment are missing, for example of {self.unit(i)} in {self.period(t)}, so "
                "there is no effect to estimate"
            )
        self._check_units()
        self._check_periods()
        self._check_connected()
        return self

    def _check_units(self) -> None:
        for i in np.flatnonzero(~self.control.any(axis=1)):
            if np.isnan(self.outcomes[i]).all():
                raise ValueError(f"{self.unit(i)} has no outcome at all; leave it out")
            if not self.treated[i, 0]:
                raise ValueError(
                    f"{self.unit(i)} has no outcome before {self.period(self.first[i])}, when its treatment begins, so "
                    "there is nothing to compare with; leave it out, or give earlier outcomes"
                )
            raise ValueError(
                f"{self.unit(i)} is treated from the first period on, {self.period(0)}, so there is no outcome without "
                "treatment to compare with; leave it out, or give earlier outcomes"
            )

    def _check_periods(self) -> None:
        for t in np.flatnonzero(~self.control.any(axis=0)):
            if np.isnan(self.outcomes[:, t]).all():
                raise ValueError(f"{self.period(t)} has no outcome at all; leave it out")
            raise ValueError(
                f"all units with an outcome are treated in {self.period(t)}, {self.unit(self.treated[:, t].argmax())} "
                "for example, so the outcomes without treatment are not determined; leave that period out, or give "
                "units that are not treated then"
            )

    def _check_connected(self) -> None:
        """Effects of units and periods are determined only within parts that entries connect."""
        n, T = self.shape
        graph = sparse.coo_array((np.ones(int(self.control.sum())), np.nonzero(self.control)), shape=(n, T))
        whole = sparse.block_array([[None, graph], [graph.T, None]])
        parts, of = connected_components(whole, directed=False)
        if parts > 1:
            i = int(np.flatnonzero(of[:n] != of[n])[0]) if (of[:n] != of[n]).any() else 0
            t = int(np.flatnonzero(of[n:] != of[i])[0])
            raise ValueError(
                f"outcomes without treatment do not connect {self.unit(i)} with {self.period(t)}: no chain of units "
                "with outcomes in the same periods leads from one to the other. Leave out one of the two parts"
            )
