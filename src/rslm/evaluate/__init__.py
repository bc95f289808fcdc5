"""How good a model is: errors of predictions, metrics of rankings, splits and scorers."""

from rslm.data import holdout
from rslm.evaluate.aligned import align, unseen
from rslm.evaluate.catalogue import coverage_at_k, novelty_at_k
from rslm.evaluate.errors import mae, rmse
from rslm.evaluate.intervals import Calibration, coverage_and_width
from rslm.evaluate.metrics import (
    capped_recall_at_k,
    hit_rate_at_k,
    map_at_k,
    mrr_at_k,
    ndcg_at_k,
    precision_at_k,
    recall_at_k,
)
from rslm.evaluate.ranking import Ranking, rank_factors, rank_items, rank_new_users
from rslm.evaluate.report import ranking_per_user, ranking_report
from rslm.evaluate.scorers import ErrorScorer, RankingScorer
from rslm.evaluate.splits import holdout_after, holdout_last, holdout_per_user, holdout_users

__all__ = [
    "Calibration",
    "ErrorScorer",
    "Ranking",
    "RankingScorer",
    "align",
    "capped_recall_at_k",
    "coverage_and_width",
    "coverage_at_k",
    "hit_rate_at_k",
    "holdout",
    "holdout_after",
    "holdout_last",
    "holdout_per_user",
    "holdout_users",
    "mae",
    "map_at_k",
    "mrr_at_k",
    "ndcg_at_k",
    "novelty_at_k",
    "precision_at_k",
    "rank_factors",
    "rank_items",
    "rank_new_users",
    "ranking_per_user",
    "ranking_report",
    "recall_at_k",
    "rmse",
    "unseen",
]
