"""Synthetic ratings like those of a recommender system, with known truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from rslm.data import ObservedMatrix, Seed, as_generator
from rslm.datasets.pairs import ascending, check_counts, inner
from rslm.runtime.types import Floats, Indices32, Indices64

MEAN = 3.5
USER_BIAS, ITEM_BIAS, TASTE = 0.4, 0.5, 0.6  # standard deviations of the three parts of a rating
ACTIVITY, POPULARITY = 1.1, 1.5  # standard deviations of the logarithms of users' and items' shares
CELLS = 1 << 25  # cells of the pattern generated at a time


@dataclass(frozen=True, eq=False)
class Ratings:
    """Synthetic ratings and everything they were computed from, except the noise."""

    data: ObservedMatrix  #: users × items
    noise_floor: float  #: standard deviation of the noise: the RMSE of the truth on new ratings
    mean: float
    user_bias: Floats
    item_bias: Floats
    user_taste: Floats  #: (n_users, rank)
    item_taste: Floats  #: (n_items, rank)

    def truth(self, users: Indices32 | Indices64, items: Indices32 | Indices64) -> Floats:
        """The ratings of the pairs (users[k], items[k]) without noise."""
        value = inner(self.user_taste, self.item_taste, users, items)
        value += self.mean
        value += self.user_bias[users]
        value += self.item_bias[items]
        return value


def make_ratings(
    n_users: int = 6000,
    n_items: int = 4000,
    n_ratings: int = 1_000_000,
    rank: int = 8,
    noise: float = 0.8,
    random_state: Seed = None,
    dtype: DTypeLike = np.float64,
) -> Ratings:
    """Synthetic ratings: mean + user bias + item bias + taste of low rank + Gaussian noise.

    Some users rate far more than others, and some items are rated far more often; every user rates at least once if
    there are as many ratings as users. A user's items are drawn without replacement in proportion to popularity.
    Ratings are neither rounded nor clipped to stars, so that `noise_floor` is exact.

    Parameters
    ----------
    n_users, n_items : int
    n_ratings : int
        At most n_users × n_items.
    rank : int
        Rank of the taste. With the biases, the rank of the truth is at most 2 higher.
    noise : float
        Standard deviation of the noise; those of the two biases and the taste are 0.4, 0.5 and 0.6.
    random_state : int, RandomState, Generator or None
    dtype : float64 or float32
        Of the ratings.

    Returns
    -------
    Ratings
    """
    check_counts(n_users, n_items, n_ratings, rank, "n_ratings")
    if not noise >= 0:
        raise ValueError(f"noise is {noise!r}, but a standard deviation of 0 or more is needed.")
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise TypeError(f"dtype is {np.dtype(dtype)}, but float64 or float32 is needed.")
    rng = as_generator(random_state)
    counts = _shares(rng.lognormal(0.0, ACTIVITY, n_users), n_ratings, n_items)
    popularity = rng.lognormal(0.0, POPULARITY, n_items)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    data = ObservedMatrix(indptr, np.empty(n_ratings, np.int32), np.empty(n_ratings, dtype), (n_users, n_items))
    made = Ratings(
        data,
        float(noise),
        MEAN,
        USER_BIAS * rng.standard_normal(n_users),
        ITEM_BIAS * rng.standard_normal(n_items),
        TASTE / np.sqrt(rank) * rng.standard_normal((n_users, rank)),
        rng.standard_normal((n_items, rank)),
    )
    step = max(1, CELLS // n_items)
    for start in range(0, n_users, step):
        mine = counts[start : start + step]
        items = _choose(mine, popularity, rng)
        users = np.repeat(np.arange(start, start + len(mine)), mine)
        rating = made.truth(users, items)
        rating += noise * rng.standard_normal(len(rating))
        at = slice(indptr[start], indptr[start + len(mine)])
        data.index[at], data.values[at] = items, rating
    return made


def _shares(weights: Floats, total: int, most: int) -> Indices64:
    """Whole numbers proportional to the weights with sum `total`, at most `most`, at least 1 if `total` suffices."""
    least = 1 if total >= len(weights) else 0
    low, high = 0.0, most / float(weights.min())
    for _ in range(100):  # bisection for the scale at which the clipped shares sum to the total
        middle = (low + high) / 2
        low, high = (low, middle) if np.clip(middle * weights, least, most).sum() >= total else (middle, high)
    shares = np.clip(high * weights, least, most)
    whole = np.floor(shares)
    part = np.cumsum(shares - whole)
    left_over = total - int(whole.sum())
    # A share gets one more if the running sum of the fractional parts passes an integer there.
    steps = np.floor(part * (left_over / part[-1]) + 1e-6) if left_over else np.zeros(len(weights))
    return np.asarray(whole + np.diff(steps, prepend=0.0), dtype=np.int64)


def _choose(counts: Indices64, popularity: Floats, rng: np.random.Generator) -> Indices32:
    """`counts[k]` different items for every user k, ascending: successive draws in proportion to popularity.

    Drawing with replacement, and drawing repetitions again, has the same distribution. Users for whom this takes too
    many rounds, because they rate nearly all items, are finished one by one.
    """
    n_items = len(popularity)
    cumulative = np.cumsum(popularity)
    seen = np.zeros(len(counts) * n_items, dtype=np.bool_)
    wanting = counts.copy()
    for _ in range(12):
        if not wanting.any():
            break
        user = np.repeat(np.arange(len(counts)), wanting)
        # The minimum is needed if rounding lifts a draw to the very end.
        draw = np.searchsorted(cumulative, rng.random(len(user)) * cumulative[-1], side="right")
        key = user * n_items + np.minimum(draw, n_items - 1)
        key = ascending(key[~seen[key]])
        seen[key] = True
        wanting -= np.bincount(key // n_items, minlength=len(counts))
    table = seen.reshape(len(counts), n_items)
    for unfinished in np.flatnonzero(wanting):
        free = np.flatnonzero(~table[unfinished])
        # Sorting exponential waiting times gives the same distribution as successive draws.
        waiting = rng.standard_exponential(len(free)) / popularity[free]
        table[unfinished, free[np.argsort(waiting)[: wanting[unfinished]]]] = True
    return (np.flatnonzero(seen) % n_items).astype(np.int32)
