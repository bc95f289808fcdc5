"""Generated panels with known effects."""

import numpy as np


def make_panel(seed=0, units=24, periods=18, factors=1, noise=0.3, effect=2.0):
    """Outcomes, where units are treated (staggered, six units), and the outcomes without treatment."""
    rng = np.random.default_rng(seed)
    loadings, common = rng.standard_normal((units, factors)), rng.standard_normal((periods, factors)).cumsum(axis=0)
    without = 3.0 + rng.standard_normal((units, 1)) + rng.standard_normal(periods) + loadings @ common.T
    without = without + noise * rng.standard_normal((units, periods))
    treated = np.zeros((units, periods), dtype=bool)
    for unit, first in enumerate((10, 11, 12, 12, 13, 15)):
        treated[unit, first:] = True
    return without + effect * treated, treated, without


def long_columns(Y, treated, first_year=2000):
    """The columns of a long table, rows in random order."""
    units, periods = Y.shape
    order = np.random.default_rng(1).permutation(Y.size)
    i, t = np.divmod(order, periods)
    names = np.array([f"unit {k:02d}" for k in range(units)])
    return {"who": names[i], "when": first_year + t, "y": Y[i, t], "on": treated[i, t].astype(int)}
