"""The metric by which settings are compared: how well held-out items are ranked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self

from rslm.data import ObservedMatrix
from rslm.evaluate import capped_recall_at_k, ndcg_at_k, rank_factors, recall_at_k
from rslm.runtime.types import Floats

METRICS = {"recall": recall_at_k, "capped_recall": capped_recall_at_k, "ndcg": ndcg_at_k}


@dataclass(frozen=True)
class Metric:
    """A metric of `rslm.evaluate` for the first k items of every user, without those that are known."""

    name: str
    k: int

    @classmethod
    def of(cls, metric: Any) -> Self:
        """From "recall@20", "capped_recall@20" or "ndcg@100"."""
        found = re.fullmatch(r"(\w+)@([1-9][0-9]*)", metric) if isinstance(metric, str) else None
        if found is None or found[1] not in METRICS:
            raise ValueError(f"metric must be one of {', '.join(f'{name}@k' for name in METRICS)}; got {metric!r}")
        return cls(found[1], int(found[2]))

    def score(
        self,
        users: Floats,
        items: Floats,
        known: ObservedMatrix,
        held_out: ObservedMatrix,
        n_threads: int | None = None,
    ) -> float:
        """The metric for these factors, over the users with held-out items."""
        ranking = rank_factors(users, items, min(self.k, len(items)), known=known, n_threads=n_threads)
        return METRICS[self.name](ranking, held_out)
