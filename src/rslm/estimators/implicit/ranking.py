"""The metric by which settings and models are compared: how well held-out items are ranked."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from rslm.data import ObservedMatrix
from rslm.evaluate import RankingScorer, align, capped_recall_at_k, ndcg_at_k, rank_factors, recall_at_k, unseen
from rslm.runtime.types import Floats

SHOWN = 0.8  # the share of the items of a new user that a model is shown; the others have to be found
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

    def of_model(self, model: Any, data: ObservedMatrix) -> float:
        """The metric of a fitted model: for items held out of its users, or for new users of whom a part is shown.

        Columns of the data are those of the model.
        """
        k = min(self.k, data.shape[1])
        held_out = _held_out(model, data)
        if held_out is None:
            return RankingScorer(self.name, k, fold_in=SHOWN)(model, data)
        return RankingScorer(self.name, k)(model, held_out)


def popularity(train: ObservedMatrix) -> tuple[Floats, Floats]:
    """Factors of users and items that recommend to everyone what most users took."""
    return np.ones((train.shape[0], 1)), train.col_counts().astype(np.float64)[:, None]


def _held_out(model: Any, data: ObservedMatrix) -> ObservedMatrix | None:
    """What a model of the same users was not fitted to; None if they are new users.

    Ids tell who they are. Without ids, data of the same shape are of the same users if none of their entries was known:
    as held-out items are, and as new users or the data of the fit are not.
    """
    if not _may_be_fitted(model, data):
        return None
    known = model.known_
    if known is None:
        raise ValueError(
            "a model that was fitted by a cluster does not hold what users took, which a score leaves out; use "
            "rank_items(model, k, known=…) and the metrics of rslm.evaluate"
        )
    if model.row_ids_ is None or data.row_ids is None:
        left = unseen(data, known)
        return left if len(left) == len(data) else None
    left = unseen(align(replace(data, col_ids=model.col_ids_), model), known)
    return left if len(left) else None


def _may_be_fitted(model: Any, data: ObservedMatrix) -> bool:
    """Whether users are known by their ids, or, without ids, are as many as those of the fit."""
    ids = model.row_ids_
    if ids is None or data.row_ids is None:
        return data.shape[0] == len(model.row_factors_)
    return set(data.row_ids.tolist()) <= set(ids.tolist())
