"""C and rank that are found."""

import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import rslm
from rslm import MatrixCompletion, MatrixCompletionCV
from rslm.data import holdout
from rslm.datasets import make_ratings


@parametrize_with_checks([MatrixCompletionCV(ranks=(1, 2))])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*no observed entry")
        check(estimator)


@pytest.fixture(scope="module")
def ratings():
    data = make_ratings(200, 100, 12_000, rank=3, noise=0.5, random_state=0).data
    return holdout(data, 0.2, 0)


def test_what_is_found_is_better_than_what_was_refused(ratings):
    train, test = ratings
    found = MatrixCompletionCV((1, 4), random_state=0).fit(train)
    results = found.cv_results_
    at = int(np.argmin(results["error"]))
    assert (results["rank"][at], results["C"][at]) == (found.best_rank_, found.best_C_)
    tried = set(zip(results["rank"], results["C"], strict=True))
    assert len(tried) == len(results["C"]) <= 2 * 9
    worst = int(np.argmax(results["error"]))
    other = MatrixCompletion(int(results["rank"][worst]), results["C"][worst], weighting=0.5, random_state=0).fit(train)
    assert found.score(test) > other.score(test)
    same = MatrixCompletion(found.best_rank_, found.best_C_, weighting=0.5, random_state=0).fit(train)
    assert found.certificate_.primal == pytest.approx(same.certificate_.primal, rel=1e-4)


def test_the_grid_may_be_given_and_the_model_kept(ratings, tmp_path):
    train, _ = ratings
    model = MatrixCompletionCV([2], [10.0, 100.0], bounds=(-5, 15), random_state=0).fit(train)
    assert model.best_rank_ == 2
    assert model.best_C_ in (10.0, 100.0)
    model.save(tmp_path / "m.rslm")
    again = rslm.load(tmp_path / "m.rslm")
    np.testing.assert_array_equal(again.predict([1, 2], [3, 4]), model.predict([1, 2], [3, 4]))
    assert again.best_C_ == model.best_C_


@pytest.mark.parametrize(
    ("options", "message"),
    [({"ranks": [0]}, "ranks must be"), ({"ranks": []}, "ranks must be"), ({"Cs": [-1.0]}, "Cs must be positive")],
)
def test_bad_input(ratings, options, message):
    with pytest.raises(ValueError, match=message):
        MatrixCompletionCV(**options).fit(ratings[0])
