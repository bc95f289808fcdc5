"""What a ranking does to the catalogue: how much of it is recommended, and how far from what is popular."""

from __future__ import annotations

from typing import Any

import numpy as np

from rslm.data import ObservedMatrix
from rslm.evaluate.aligned import arranged
from rslm.evaluate.metrics import place
from rslm.evaluate.ranking import Ranking
from rslm.runtime.types import Indices32


def coverage_at_k(ranking: Ranking, k: int | None = None) -> float:
    """The share of all items that is among the first k of at least one user.

    Parameters
    ----------
    ranking : Ranking
    k : int, optional
        The first k places count; None for all that were ranked.
    """
    return len(np.unique(_listed(ranking, k))) / ranking.shape[1]


def novelty_at_k(ranking: Ranking, train: Any, k: int | None = None) -> float:
    """Mean self-information of the items among the first k, in bits: −log₂ of the share of users who have the item.

    An item that nobody has counts as if one user had it.

    Parameters
    ----------
    ranking : Ranking
    train : ObservedMatrix, or any other matrix that `fit` accepts
        The entries that say who has what, with the columns of the ranking and any number of rows.
    k : int, optional
        The first k places count; None for all that were ranked.
    """
    data = ObservedMatrix.from_any(train)
    data = arranged(data, (data.shape[0], ranking.shape[1]), None, ranking.col_ids, what="train")
    items = _listed(ranking, k)
    if not len(items):
        raise ValueError("the ranking has no items: every user already has all items")
    shares = np.maximum(data.col_counts(), 1) / data.shape[0]
    return float(-np.log2(shares[items]).mean())


def _listed(ranking: Ranking, k: int | None) -> Indices32:
    items = ranking.items[:, : place(k, ranking)]
    return items[items >= 0]
