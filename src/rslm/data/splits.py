"""Splits of the observed entries."""

from __future__ import annotations

import numpy as np

from rslm.data.observed import ObservedMatrix

Seed = int | np.random.Generator | np.random.RandomState | None


def as_generator(random_state: Seed) -> np.random.Generator:
    """A random generator from any seed that scikit-learn or NumPy accept.

    Parameters
    ----------
    random_state : int, RandomState, Generator or None
        A Generator is used as it is, and advanced; None gives different numbers every time.
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state must be a whole number ≥ 0, a Generator, a RandomState or None; got {random_state!r}"
        ) from None


def holdout(data: ObservedMatrix, fraction: float, random_state: Seed = None) -> tuple[ObservedMatrix, ObservedMatrix]:
    """Hold out a given fraction of the entries, chosen at random: returns (train, held out).

    Both have the shape, the ids and the weights of `data`, so a row may have no entries in one of them.

    Parameters
    ----------
    data : ObservedMatrix, or any other matrix that `fit` accepts
    fraction : float between 0 and 1
        The fraction of the observed entries that is held out.
    random_state : int, RandomState, Generator or None
        Seed of the random choice.

    Returns
    -------
    train, held_out : ObservedMatrix
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction is {fraction!r}, but a number between 0 and 1, such as 0.1, is needed.")
    data = ObservedMatrix.from_any(data)
    n = data.n_observed
    count = round(fraction * n)
    if not 0 < count < n:
        part = "held-out" if count == 0 else "training"
        raise ValueError(
            f"fraction {fraction} of {n} observed entries leaves the {part} part empty. "
            "Use a fraction nearer to 0.5, or more entries."
        )
    held = np.zeros(n, dtype=np.bool_)
    held[as_generator(random_state).choice(n, count, replace=False, shuffle=False)] = True
    return data.subset(~held), data.subset(held)
