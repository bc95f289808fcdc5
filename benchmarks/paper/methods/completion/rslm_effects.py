"""Weighted, with mean, row and column effects in the model, as MatrixCompletion() does by itself."""

from __future__ import annotations

from paper.methods.completion.estimator import fit_estimator
from paper.observed import Entries
from paper.record import Record

NAME = "RSLM, weighted, effects"
PROBLEM = "C · squares about mean and effects + ½ weighted ‖W‖_*²"
GRID = (1e1, 1e2, 1e3, 1e4, 1e5)


def fit(data: Entries, rank: int, weight: float, record: Record) -> None:
    """`weight` is C."""
    fit_estimator(data, record, rank=rank, C=weight, effects="auto", weighting=0.5)
