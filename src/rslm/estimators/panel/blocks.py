"""Held-out blocks that look like the treated one: untreated outcomes, at the times when a treated unit is treated."""

from __future__ import annotations

import numpy as np

from rslm.estimators.panel.panel import Panel
from rslm.estimators.panel.two_way import Flags

FEW = 2  # never-treated units below which units that are treated later serve, too


def held_out_blocks(panel: Panel, count: int, rng: np.random.Generator) -> Flags:
    """`count` sets of untreated entries to hold out, of shape (count, units, periods).

    In each, some control units get the times of treatment of randomly drawn treated units: as large a share of them as
    of all units is treated, but at most half of them.
    """
    treated = np.flatnonzero(panel.treated.any(axis=1))
    never = np.flatnonzero(~panel.treated.any(axis=1))
    donors = never if len(never) >= FEW else np.arange(panel.shape[0])
    share = len(treated) / panel.shape[0]
    many = max(1, min(len(donors) // 2, round(share * len(donors))))
    control = panel.control
    held = np.zeros((count, *panel.shape), dtype=np.bool_)
    for block in held:
        chosen = rng.permutation(donors)[:many]
        block[chosen] = panel.treated[rng.choice(treated, many)] & control[chosen]
        block[~(control & ~block).any(axis=1)] = False  # every unit and every period keeps an entry
        block[:, ~(control & ~block).any(axis=0)] = False
    return held[held.any(axis=(1, 2))]
