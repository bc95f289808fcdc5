"""Locations of all kinds, and data that have one."""

from rslm.location import Location

LOCATIONS = {
    "mean": Location(),
    "all": Location(True, 0.7, 0.5),
    "rows free": Location(True, 0.0, 0.5),
    "columns free": Location(True, 0.4, 0.0),
    "both free": Location(True, 0.0, 0.0),
    "rows": Location(False, 0.3),
    "columns": Location(False, None, 0.4),
}


def table(rng, d, T, columns=1.0, low_rank=1.0, noise=0.0):
    """A mean of 3, effects of rows and of columns, a matrix of rank 2 and noise, of these sizes."""
    Y = 3.0 + rng.standard_normal((d, 1)) + columns * rng.standard_normal((1, T))
    Y += low_rank * rng.standard_normal((d, 2)) @ rng.standard_normal((2, T))
    return Y + noise * rng.standard_normal((d, T)) if noise else Y
