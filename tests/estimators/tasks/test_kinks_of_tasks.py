"""Losses with kinks where a ridge for every task is the answer, and for new tasks."""

import numpy as np
import pytest

from rslm import MultiTaskClassifier, MultiTaskRegressor, ReducedRankRegressor
from rslm.estimators.tasks import task_model
from rslm.estimators.tasks.automatic import Choice
from rslm.estimators.tasks.family import RIDGE, Setting

LOSSES = ("absolute", "epsilon_insensitive", "quantile:0.5", "huber")
ROWS = 100


@pytest.fixture
def a_ridge(monkeypatch):
    """A search whose answer is a ridge for every task."""
    found = Choice(Setting(RIDGE, 10.0, 3, 1.0, 1.0))
    monkeypatch.setattr(task_model, "choose", lambda *given: found)


def made():
    """Two targets with small noise, and one in twenty that is wrong by a lot."""
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((ROWS, 3)), np.array([[1.0, -1.0, 0.5], [0.5, 2.0, 1.0]])
    Y = X @ W.T + 0.01 * rng.standard_normal((ROWS, 2))
    Y[::20] += 100.0
    return X, Y, W


@pytest.mark.parametrize("loss", LOSSES)
def test_a_ridge_for_every_target(a_ridge, loss):
    X, Y, W = made()
    model = ReducedRankRegressor(loss=loss).fit(X, Y)
    assert model.task_part_ == "ridge"
    assert np.abs(model.coef_ - W).max() < 0.2


@pytest.mark.parametrize("loss", LOSSES)
def test_a_ridge_for_every_task(a_ridge, loss):
    X, Y, W = made()
    model = MultiTaskRegressor(loss=loss).fit([X, X], list(Y.T))
    assert model.task_part_ == "ridge"
    assert np.abs(model.coef_ - W).max() < 0.2


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_a_ridge_for_every_classification(a_ridge, loss):
    X, _, W = made()
    sides = [X @ w > 0 for w in W]
    model = MultiTaskClassifier(loss=loss).fit([X, X], sides)
    assert model.task_part_ == "ridge"
    assert all(model.score(X, side, tasks=[t]) > 0.95 for t, side in enumerate(sides))


@pytest.mark.parametrize("effects", [None, (1.0, 1.0), (None, 1.0)])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_new_task(loss, effects):
    X, Y, W = made()
    model = MultiTaskRegressor(2, 1.0, loss=loss, effects=effects, random_state=0).fit([X, X], list(Y.T))
    coef, intercept = model.fit_task(X[1:20], X[1:20] @ W[1] + 3.0)
    assert np.abs(coef - W[1]).max() < 0.3
    assert abs(intercept - 3.0) < 0.5  # ε is 0.4
