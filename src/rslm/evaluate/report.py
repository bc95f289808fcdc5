"""All metrics of a ranking at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rslm.evaluate.catalogue import coverage_at_k, novelty_at_k
from rslm.evaluate.judged import Gain, Judged, per_user
from rslm.evaluate.metrics import OF_USERS, mean_of_users, place
from rslm.evaluate.ranking import Ranking
from rslm.runtime.types import Floats


def ranking_report(
    ranking: Ranking,
    held_out: Any,
    at: int | Sequence[int] | None = None,
    *,
    train: Any = None,
    relevant_from: float | None = None,
    gain: Gain = "binary",
) -> dict[str, float]:
    """All metrics, by names such as "recall@20", and the number of users that they are means of.

    Parameters
    ----------
    ranking : Ranking
    held_out : ObservedMatrix, or any other matrix that `fit` accepts
        Users and items are found by ids where it and the ranking have any; otherwise its shape is (users, items).
    at : int or several, optional
        How many of the first places count; None for all that were ranked.
    train : matrix of the training entries, optional
        For novelty, which needs to know how many users have an item; None leaves novelty out.
    relevant_from : float, optional
        Held-out entries of at least this value are relevant; if None, those above 0.
    gain : {"binary", "linear", "exponential"}, default="binary"
        As in `ndcg_at_k`.

    Returns
    -------
    dict
    """
    places = _places(at, ranking)
    users = ranking_per_user(ranking, held_out, places, relevant_from=relevant_from, gain=gain)
    found: dict[str, float] = {"users": int(np.count_nonzero(~np.isnan(next(iter(users.values())))))}
    found |= {name: mean_of_users(values) for name, values in users.items()}
    found |= {f"coverage@{k}": coverage_at_k(ranking, k) for k in places}
    return found | ({} if train is None else {f"novelty@{k}": novelty_at_k(ranking, train, k) for k in places})


def ranking_per_user(
    ranking: Ranking,
    held_out: Any,
    at: int | Sequence[int] | None = None,
    *,
    relevant_from: float | None = None,
    gain: Gain = "binary",
) -> dict[str, Floats]:
    """The metrics of every user of the ranking, NaN for users without a relevant item.

    Two models are compared best by the differences of their users, whose spread is smaller than that of the users.

    Parameters
    ----------
    ranking, held_out, at, relevant_from, gain : as in `ranking_report`

    Returns
    -------
    dict
        By names such as "recall@20", one array with a number for every user of the ranking.
    """
    places = _places(at, ranking)

    def measure(judged: Judged) -> list[Floats]:
        return [metric(judged, k) for k in places for metric in OF_USERS.values()]

    names = [f"{name}@{k}" for k in places for name in OF_USERS]
    return dict(zip(names, per_user(ranking, held_out, measure, relevant_from, gain), strict=True))


def _places(at: int | Sequence[int] | None, ranking: Ranking) -> list[int]:
    several: Any = [at] if np.ndim(at) == 0 else at  # type: ignore[arg-type]
    if not len(several):
        raise ValueError("at is empty; give the number of places that count, or several")
    return list(dict.fromkeys(place(k, ranking) for k in several))
