"""min C ‖P_Ω(W − Y)‖² + ½ ‖√P W √Q‖_*²  with W ≥ 0, P and Q the square roots of the counts; not in the paper."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning

from paper.methods.completion.estimator import Follower, factors
from paper.observed import Entries
from paper.record import Record
from rslm import MatrixCompletion, ObservedMatrix

NAME = "RSLM, weighted"
PROBLEM = "C · squares + ½ weighted ‖W‖_*², W ≥ 0"
GRID = (1e1, 1e2, 1e3, 1e4)
TOL = 1e-4  # relative gradient


def fit(data: Entries, rank: int, weight: float, record: Record) -> None:
    """`weight` is C."""
    d, T = data.shape
    X = ObservedMatrix(data.columns.indptr, data.columns.index, data.y, (T, d))
    model = MatrixCompletion(
        rank, weight, bounds=(0, None), effects=None, weighting=0.5, tol=TOL, random_state=0, n_threads=data.threads
    )
    model.set_callbacks(Follower(record))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*no observed entry")  # some films have no rating in a split
        warnings.simplefilter("ignore", ConvergenceWarning)  # the page tells which fits have converged
        model.fit(X)
    record(*factors(model))  # the iterates have softened bounds, the answer has not
