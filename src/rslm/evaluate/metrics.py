"""How good a ranking is: metrics of users, averaged over those who have relevant items among the held-out ones.

A user without a relevant item is left out; a user with relevant items for whom nothing was ranked counts as 0. Values
are those of ranx.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rslm.evaluate.judged import Gain, Judged, per_user
from rslm.evaluate.ranking import Ranking, check_k
from rslm.runtime.types import Floats


def recall_at_k(ranking: Ranking, held_out: Any, k: int | None = None, *, relevant_from: float | None = None) -> float:
    """The share of a user's relevant items that is among the first k: hits / number of relevant items.

    It is below 1 for a user with over k relevant items, whatever the ranking; `capped_recall_at_k` can reach 1.

    Parameters
    ----------
    ranking : Ranking
    held_out : ObservedMatrix, or any other matrix that `fit` accepts
        Users and items are found by ids where it and the ranking have any; otherwise its shape is (users, items).
    k : int, optional
        The first k places count; None for all that were ranked.
    relevant_from : float, optional
        Held-out entries of at least this value are relevant; if None, those above 0.
    """
    return mean_at_k(ranking, held_out, "recall", k, relevant_from)


def capped_recall_at_k(
    ranking: Ranking, held_out: Any, k: int | None = None, *, relevant_from: float | None = None
) -> float:
    """Hits among the first k relative to as many as are possible: hits / min(k, number of relevant items).

    Parameters
    ----------
    ranking, held_out, k, relevant_from : as in `recall_at_k`
    """
    return mean_at_k(ranking, held_out, "capped_recall", k, relevant_from)


def precision_at_k(
    ranking: Ranking, held_out: Any, k: int | None = None, *, relevant_from: float | None = None
) -> float:
    """The share of the first k places that holds a relevant item: hits / k, also where fewer items were left.

    Parameters
    ----------
    ranking, held_out, k, relevant_from : as in `recall_at_k`
    """
    return mean_at_k(ranking, held_out, "precision", k, relevant_from)


def ndcg_at_k(
    ranking: Ranking,
    held_out: Any,
    k: int | None = None,
    *,
    relevant_from: float | None = None,
    gain: Gain = "binary",
) -> float:
    """Normalised discounted cumulative gain: Σ gain / log₂(place + 1) over the first k, relative to the best order.

    Parameters
    ----------
    ranking, held_out, k, relevant_from : as in `recall_at_k`
    gain : {"binary", "linear", "exponential"}, default="binary"
        Of a relevant item with the held-out value v: 1, v or 2ᵛ − 1.
    """
    return mean_at_k(ranking, held_out, "ndcg", k, relevant_from, gain)


def map_at_k(ranking: Ranking, held_out: Any, k: int | None = None, *, relevant_from: float | None = None) -> float:
    """Mean average precision: Σ precision at the places of hits among the first k / number of relevant items.

    Parameters
    ----------
    ranking, held_out, k, relevant_from : as in `recall_at_k`
    """
    return mean_at_k(ranking, held_out, "map", k, relevant_from)


def mrr_at_k(ranking: Ranking, held_out: Any, k: int | None = None, *, relevant_from: float | None = None) -> float:
    """Mean reciprocal rank: 1 / place of the first hit, 0 if none is among the first k.

    Parameters
    ----------
    ranking, held_out, k, relevant_from : as in `recall_at_k`
    """
    return mean_at_k(ranking, held_out, "mrr", k, relevant_from)


def hit_rate_at_k(
    ranking: Ranking, held_out: Any, k: int | None = None, *, relevant_from: float | None = None
) -> float:
    """The share of users with at least one hit among the first k.

    Parameters
    ----------
    ranking, held_out, k, relevant_from : as in `recall_at_k`
    """
    return mean_at_k(ranking, held_out, "hit_rate", k, relevant_from)


def _recall(judged: Judged, k: int) -> Floats:
    return _hits(judged, k) / judged.relevant


def _capped_recall(judged: Judged, k: int) -> Floats:
    return _hits(judged, k) / np.minimum(judged.relevant, k)


def _precision(judged: Judged, k: int) -> Floats:
    return _hits(judged, k) / k


def _ndcg(judged: Judged, k: int) -> Floats:
    discount = 1.0 / np.log2(np.arange(k) + 2.0)
    # not by the BLAS, whose sums would depend on the users that are computed together
    found, ideal = ((gains[:, :k] * discount).sum(axis=1) for gains in (judged.gains, judged.ideal))
    return np.asarray(found / ideal)


def _map(judged: Judged, k: int) -> Floats:
    hits = judged.hits[:, :k]
    precisions = np.cumsum(hits, axis=1) / np.arange(1, k + 1)
    found: Floats = (hits * precisions).sum(axis=1) / judged.relevant
    return found


def _mrr(judged: Judged, k: int) -> Floats:
    found: Floats = (judged.hits[:, :k] / np.arange(1, k + 1)).max(axis=1)
    return found


def _hit_rate(judged: Judged, k: int) -> Floats:
    return np.minimum(_hits(judged, k), 1.0)


def _hits(judged: Judged, k: int) -> Floats:
    found: Floats = judged.hits[:, :k].sum(axis=1, dtype=np.float64)
    return found


OF_USERS: dict[str, Callable[[Judged, int], Floats]] = {
    "recall": _recall,
    "capped_recall": _capped_recall,
    "precision": _precision,
    "ndcg": _ndcg,
    "map": _map,
    "mrr": _mrr,
    "hit_rate": _hit_rate,
}


def place(k: Any, ranking: Ranking) -> int:
    """The number of places that count, checked."""
    if k is None:
        return ranking.k
    check_k(k, ranking.shape[1])
    if k > ranking.k:
        raise ValueError(
            f"k is {k}, but only the first {ranking.k} items of every user were ranked; rank at least {k} of them"
        )
    return int(k)


def mean_at_k(
    ranking: Ranking,
    held_out: Any,
    name: str,
    k: int | None,
    relevant_from: float | None = None,
    gain: Gain = "binary",
) -> float:
    """The mean of the metric of this name over the users who have relevant items."""
    first, metric = place(k, ranking), OF_USERS[name]
    (values,) = per_user(ranking, held_out, lambda judged: [metric(judged, first)], relevant_from, gain)
    return mean_of_users(values)


def mean_of_users(values: Floats) -> float:
    """The mean, but for users without a relevant item, whose values are NaN; they do not change its rounding either."""
    return float(values[~np.isnan(values)].mean())
