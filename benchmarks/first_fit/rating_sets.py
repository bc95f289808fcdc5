"""Ratings: generated ones like FilmTrust's, MovieLens-100K by its folds, MovieLens-1M by seeds."""

from __future__ import annotations

import numpy as np
from cases import AbsentError, Array, Entries, Maker, needed
from scipy import sparse


def entries(shape: tuple[int, int], train: tuple[Array, Array, Array], test: tuple[Array, Array, Array]) -> Entries:
    """From rows, columns and values of both parts."""
    X = sparse.csr_array(sparse.coo_array((train[2].astype(float), train[:2]), shape=shape))
    return Entries(X, test[0], test[1], test[2].astype(float), np.ones(shape[1]))


def split(shape: tuple[int, int], rows: Array, cols: Array, values: Array, seed: int) -> Entries:
    """80/20 at random."""
    order = np.random.default_rng(seed).permutation(len(values))
    train, test = np.split(order, [int(0.8 * len(order))])
    return entries(shape, (rows[train], cols[train], values[train]), (rows[test], cols[test], values[test]))


def sparse_ratings(seed: int) -> Entries:
    """1,500 x 2,000 with 35,000 ratings of half stars from 0.5 to 4: effects, rank 3 and noise.

    The constants were chosen to give errors like those reported for FilmTrust, which is not at hand: effects alone have
    0.87 times the error of the mean, and a low-rank part added to them, its C chosen by test error, one or two per cent
    less than that. Items are popular by a power law, and popular ones are rated higher; the activity of users is
    log-normal, so half of the users have fewer than 15 ratings.
    """
    rng = np.random.default_rng([seed, 1500])
    n, m, count, rank = 1500, 2000, 35_000, 3
    fame = rng.permutation(-np.log(np.arange(1, m + 1) + 5.0))
    active = 0.9 * rng.standard_normal(n)
    keys = active[:, None] + 1.1 * fame + rng.gumbel(size=(n, m))  # the largest are a sample without replacement
    rows, cols = np.divmod(np.argpartition(-keys.ravel(), count)[:count], m)
    users = 0.45 * rng.standard_normal(n)
    items = 0.40 * rng.standard_normal(m) + 0.15 * (fame - fame.mean()) / fame.std()
    left, right = rng.standard_normal((n, rank)), rng.standard_normal((m, rank))
    taste = 0.5 / np.sqrt(rank) * np.einsum("kr,kr->k", left[rows], right[cols])
    raw = 3.0 + users[rows] + items[cols] + taste + 0.8 * rng.standard_normal(count)
    return split((n, m), rows, cols, np.clip(np.round(2.0 * raw) / 2.0, 0.5, 4.0), seed)


def movielens_100k(seed: int) -> Entries:
    """Fold u1 for seed 0 to u5 for seed 4, as published."""
    if seed > 4:
        raise AbsentError(f"it has folds for the seeds 0 to 4, none for {seed}")
    table = np.loadtxt(needed("ml-100k/u.data"), dtype=np.int64)
    test = np.loadtxt(needed(f"ml-100k/u{seed + 1}.test"), dtype=np.int64)
    pairs, held = (t[:, 0] * 10_000 + t[:, 1] for t in (table, test))
    train = table[~np.isin(pairs, held)]
    return entries((943, 1682), *((t[:, 0] - 1, t[:, 1] - 1, t[:, 2]) for t in (train, test)))


def movielens_1m(seed: int) -> Entries:
    file = np.load(needed("ml-1m/ml-1m.npz"))
    return split((6040, 3706), file["col"], file["row"], file["value"], seed)


SETS: dict[str, Maker] = {
    "sparse-ratings": sparse_ratings,
    "ml-100k": movielens_100k,
    "ml-1m": movielens_1m,
}
