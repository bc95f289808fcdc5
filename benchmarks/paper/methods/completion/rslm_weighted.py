"""min C ‖P_Ω(W − Y)‖² + ½ ‖√P W √Q‖_*², P and Q the square roots of the counts: MatrixCompletion(weighting=0.5)."""

from __future__ import annotations

from paper.methods.completion.estimator import fit_estimator
from paper.observed import Entries
from paper.record import Record

NAME = "RSLM, weighted"
PROBLEM = "C · squares + ½ weighted ‖W‖_*²"
GRID = (1e1, 1e2, 1e3, 1e4, 1e5)


def fit(data: Entries, rank: int, weight: float, record: Record) -> None:
    """`weight` is C."""
    fit_estimator(data, record, rank=rank, C=weight, effects=None, weighting=0.5)
