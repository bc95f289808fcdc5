"""Probabilities of several classes from those of their pairs."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from rslm import MultiTaskClassifier
from rslm.estimators.tasks.coupling import against_the_rest, probabilities


def test_pairs_that_agree_give_the_probabilities_they_come_from():
    given = np.random.default_rng(0).normal(0.0, 3.0, (50, 6))
    first, second = np.triu_indices(6, 1)
    side = against_the_rest(given[:, second] - given[:, first], first, second)
    p = softmax(given, axis=1)
    np.testing.assert_allclose(side, np.log(p) - np.log1p(-p), rtol=1e-9)
    np.testing.assert_allclose(probabilities(side), p, rtol=1e-12)


def test_extreme_pairs_that_contradict_one_another():
    circle = np.array([[1.0, -1.0, 1.0], [0.0, 0.0, 0.0]]) * 1e6  # each class beats the next one
    p = probabilities(against_the_rest(circle, *np.triu_indices(3, 1)))
    np.testing.assert_allclose(p, 1 / 3)


@pytest.mark.parametrize(
    ("data", "how"),
    [
        (load_iris, {}),
        (load_digits, {"rank": 5, "C": 100.0, "effects": None, "tol": 1e-3}),
    ],
)
def test_probabilities_of_several_classes_are_calibrated(data, how):
    X, y = data(return_X_y=True)
    train, test, y_train, y_test = train_test_split(X / X.max(), y, random_state=0, stratify=y)
    model = MultiTaskClassifier(**how, random_state=0).fit(train, y_train)
    p = model.predict_proba(test)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(test))
    assert abs(p.max(axis=1).mean() - model.score(test, y_test)) < 0.05
    theirs = LogisticRegression(max_iter=2000).fit(train, y_train)
    assert log_loss(y_test, p) < log_loss(y_test, theirs.predict_proba(test)) + 0.1
