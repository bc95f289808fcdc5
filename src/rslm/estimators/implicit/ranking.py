"""How well held-out items are ranked: recall@k and ndcg@k, for the search of settings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from rslm.data import ObservedMatrix
from rslm.estimators.completion.recommend import CELLS, Known, largest
from rslm.runtime.types import Floats


@dataclass(frozen=True)
class Metric:
    """The mean over all users with held-out items of recall@k or ndcg@k.

    recall@k is the number of held-out items among the best k, relative to the most that are possible, min(k, number of
    held-out items). ndcg@k discounts position n by log₂(n + 1), relative to the best ranking. Known items are left out.
    """

    name: str
    k: int

    @classmethod
    def of(cls, metric: Any) -> Self:
        """From "recall@20" or "ndcg@100"."""
        found = re.fullmatch(r"(recall|ndcg)@([1-9][0-9]*)", metric) if isinstance(metric, str) else None
        if found is None:
            raise ValueError(f"metric must be 'recall@k' or 'ndcg@k', such as 'ndcg@100'; got {metric!r}")
        return cls(found[1], int(found[2]))

    def score(self, users: Floats, items: Floats, known: ObservedMatrix, held_out: ObservedMatrix) -> float:
        """The metric for these factors."""
        counts = held_out.row_counts()
        asked = np.flatnonzero(counts > 0)
        top = min(self.k, len(items))
        discount = 1.0 / np.log2(np.arange(2.0, top + 2.0)) if self.name == "ndcg" else np.ones(top)
        best, total = np.cumsum(discount), 0.0
        wanted, step = held_out.to_csr(), max(1, CELLS // len(items))
        for start in range(0, len(asked), step):
            rows = asked[start : start + step]
            columns, scores = largest(rows, users, items, top, Known.of(known))
            taken = wanted[rows].toarray() != 0
            hits = np.take_along_axis(taken, columns, axis=1) & np.isfinite(scores)
            total += float(((hits @ discount) / best[np.minimum(counts[rows], top) - 1]).sum())
        return total / max(len(asked), 1)


def held_out_items(
    data: ObservedMatrix, rng: np.random.Generator, share: float = 0.2
) -> tuple[ObservedMatrix, ObservedMatrix]:
    """Hold out a share of the items of every user, at least one of those with two or more: (train, held out)."""
    counts = data.row_counts()
    count = np.where(counts >= 2, np.maximum(np.floor(share * counts), 1), 0)
    rows = data.rows_of_entries()
    order = np.lexsort((rng.random(len(data)), rows))  # a random order within every row
    held = np.zeros(len(data), dtype=np.bool_)
    held[order] = np.arange(len(data)) - data.indptr[rows] < count[rows]
    return data.subset(~held), data.subset(held)
