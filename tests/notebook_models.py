"""One small fitted model of every public estimator, for tests of what all of them show."""

import numpy as np
from scipy import sparse

from rslm import (
    HankelModel,
    ImplicitCompletion,
    InductiveCompletion,
    MatrixCompletion,
    MultiTaskClassifier,
    MultiTaskRegressor,
    PanelCompletion,
    ReducedRankRegressor,
)
from rslm.datasets import make_ratings


def _completion():
    made = make_ratings(n_users=100, n_items=80, n_ratings=3000, rank=2, noise=0.5, random_state=0)
    return MatrixCompletion(random_state=0).fit(made.data)


def _implicit():
    rng = np.random.default_rng(0)
    likes = rng.standard_normal((100, 2)) @ rng.standard_normal((2, 60)) + rng.standard_normal((100, 60)) > 1.5
    return ImplicitCompletion(rank=2, random_state=0).fit(sparse.csr_array(likes.astype(float)))


def _inductive():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((40, 3)), rng.standard_normal((30, 2))
    X = A @ rng.standard_normal((3, 2)) @ B.T + 0.1 * rng.standard_normal((40, 30))
    model = InductiveCompletion(rank=2, C=10.0, random_state=0)
    return model.fit(np.where(rng.random(X.shape) < 0.5, X, np.nan), row_features=A, column_features=B)


def _panel():
    rng = np.random.default_rng(0)
    outcomes = rng.standard_normal((30, 1)) + 0.2 * rng.standard_normal((30, 20))
    treated = np.zeros((30, 20), dtype=bool)
    treated[:8, 12:] = True
    return PanelCompletion(n_refits=10, random_state=0).fit(outcomes + treated, treated=treated)


def _series():
    t = np.arange(100)
    noise = 0.1 * np.random.default_rng(0).standard_normal(100)
    return HankelModel().fit(0.98**t * np.cos(0.3 * t) + noise)


def _tasks(names=("<b>a", "b", "c", "d", "e", "f")):
    rng = np.random.default_rng(0)
    X, at = rng.standard_normal((180, 4)), np.repeat(np.arange(6), 30)
    W = rng.standard_normal((6, 1)) @ rng.standard_normal((1, 4))
    return X, (X * W[at]).sum(1) + 0.3 * rng.standard_normal(180), np.array(names)[at], W


def _regressor():
    X, y, tasks, _ = _tasks()
    return MultiTaskRegressor(random_state=0).fit(X, y, tasks=tasks)


def _classifier():
    X, y, tasks, _ = _tasks()
    return MultiTaskClassifier(random_state=0).fit(X, y > 0, tasks=tasks)


def _reduced_rank():
    X, _, _, W = _tasks()
    return ReducedRankRegressor(random_state=0).fit(X, X @ W.T + np.random.default_rng(1).standard_normal((180, 6)))


MAKE = {
    "HankelModel": _series,
    "ImplicitCompletion": _implicit,
    "InductiveCompletion": _inductive,
    "MatrixCompletion": _completion,
    "MultiTaskClassifier": _classifier,
    "MultiTaskRegressor": _regressor,
    "PanelCompletion": _panel,
    "ReducedRankRegressor": _reduced_rank,
}
