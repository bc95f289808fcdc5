"""A ranking compared with the items that were held out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rslm.data import ObservedMatrix
from rslm.data.labels import show_id
from rslm.evaluate.aligned import arranged, entry_keys, found_in
from rslm.evaluate.largest import entries_of
from rslm.evaluate.ranking import Ranking
from rslm.runtime.types import Floats, Indices64

Gain = Literal["binary", "linear", "exponential"]
GAINS: dict[Gain, Callable[[Floats], Floats]] = {
    "binary": np.ones_like,
    "linear": lambda values: values,
    "exponential": lambda values: np.exp2(values) - 1.0,
}
CELLS = 1 << 20  # places of the ranking that are compared at a time


@dataclass(frozen=True)
class Judged:
    """Some users that have relevant items: what was found at every place of their rankings."""

    hits: NDArray[np.bool_]  #: (users, k): whether the item there is relevant
    gains: Floats  #: (users, k): its gain, 0 if it is not relevant
    ideal: Floats  #: (users, k): the largest gains that are possible, in descending order
    relevant: Indices64  #: number of relevant items of every user


def per_user(
    ranking: Ranking,
    held_out: Any,
    measure: Callable[[Judged], list[Floats]],
    relevant_from: float | None,
    gain: Gain,
) -> list[Floats]:
    """Measures of every user of the ranking, in blocks of users; NaN for those without a relevant item."""
    relevant = _relevant(ranking, held_out, relevant_from)
    counts = relevant.row_counts()[ranking.users]
    having = np.flatnonzero(counts)
    if not len(having):
        raise ValueError(
            "no user of the ranking has a relevant item in held_out, so nothing can be found. Hold out more, or "
            "change relevant_from: without it, held-out entries above 0 are relevant"
        )
    keys, gains = entry_keys(relevant), _gains(relevant.values, gain)
    step = max(1, CELLS // ranking.k)
    parts = []
    for start in range(0, len(having), step):
        mine = having[start : start + step]
        users, items = ranking.users[mine], ranking.items[mine]
        hits, at = found_in(keys, np.where(items >= 0, users[:, None] * ranking.shape[1] + items, -1))
        ideal = _ideal(relevant.indptr, gains, users, ranking.k)
        parts.append(measure(Judged(hits, np.where(hits, gains[at], 0.0), ideal, counts[mine])))
    found = []
    for values in zip(*parts, strict=True):
        of_all = np.full(len(counts), np.nan)
        of_all[having] = np.concatenate(values)
        found.append(of_all)
    return found


def _relevant(ranking: Ranking, held_out: Any, least: float | None) -> ObservedMatrix:
    """The relevant entries of the ranked users, none of which is among those that the ranking leaves out."""
    data = arranged(held_out, ranking.shape, ranking.row_ids, ranking.col_ids)
    ranked = np.zeros(ranking.shape[0], dtype=np.bool_)
    ranked[ranking.users] = True
    data = data.subset(ranked[data.rows_of_entries()] & (data.values > 0 if least is None else data.values >= least))
    if ranking.known is not None:
        both, _ = found_in(entry_keys(ranking.known), entry_keys(data))
        if both.any():
            first = int(np.argmax(both))
            user = show_id(ranking.row_ids, int(data.rows_of_entries()[first]))
            raise ValueError(
                f"{np.count_nonzero(both)} of {len(data)} held-out items are among the known ones, which are not "
                f"ranked: the first is item {show_id(ranking.col_ids, int(data.index[first]))} of user {user}. Fit "
                "without them, or leave them out: unseen(held_out, known)"
            )
    return data


def _gains(values: Floats, gain: Gain) -> Floats:
    if gain not in GAINS:
        raise ValueError(f"gain must be one of {', '.join(map(repr, GAINS))}; got {gain!r}")
    if gain != "binary" and values.min() <= 0:
        raise ValueError(
            f"gain={gain!r} needs relevant entries above 0, but the smallest is {values.min():g}; use gain='binary', "
            "or a larger relevant_from"
        )
    with np.errstate(over="ignore"):
        gains = GAINS[gain](values.astype(np.float64))
    if not np.isfinite(gains).all():
        raise ValueError(f"gain={gain!r} overflows for an entry of {values.max():g}; use gain='linear' or 'binary'")
    return gains


def _ideal(indptr: Indices64, gains: Floats, users: Indices64, k: int) -> Floats:
    """The k largest gains of these users, in descending order, and 0 where there are fewer."""
    row, entries = entries_of(indptr, users)
    values = gains[entries]
    order = np.lexsort((-values, row))
    place = np.arange(len(row)) - np.searchsorted(row, row)
    first = place < k
    ideal = np.zeros((len(users), k))
    ideal[row[first], place[first]] = values[order][first]
    return ideal
