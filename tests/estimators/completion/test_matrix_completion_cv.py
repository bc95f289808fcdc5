"""C and rank that are found."""

import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import rslm
from rslm import MatrixCompletion, MatrixCompletionCV
from rslm.data import holdout
from rslm.datasets import make_ratings
from rslm.estimators.defaults import spread, usual_C
from rslm.losses import Absolute, Huber, Logistic, Square

# Weights are those of entries. A sample twice is two rows of the matrix, which is another problem.
NOT_OF_SAMPLES = {
    "check_sample_weights_shape": "one weight for every entry is accepted, too",
    "check_sample_weight_equivalence_on_dense_data": "a sample twice is another matrix",
    "check_sample_weight_equivalence_on_sparse_data": "a sample twice is another matrix",
}


@parametrize_with_checks(
    [MatrixCompletionCV(ranks=(1, 2))], expected_failed_checks=lambda _: NOT_OF_SAMPLES, xfail_strict=False
)
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


class Stop:
    """A callback that counts what it is shown, and ends the fit after so many iterations."""

    def __init__(self, after):
        self.after, self.errors = after, []

    def setup(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if fitted_estimator is not None:
            self.errors.append(fitted_estimator.predict([0, 1], [2, 3]))
        return len(self.errors) == self.after

    def teardown(self, estimator, context): ...


def test_the_search_is_told_of_and_can_be_stopped():
    """The best setting so far is kept, and no other one is begun."""
    data = make_ratings(80, 60, 2000, rank=2, noise=0.3, random_state=0).data
    watched = Stop(after=None)
    whole = MatrixCompletionCV([2, 4], [3.0, 10.0, 30.0], random_state=0).set_callbacks(watched).fit(data)
    assert len(watched.errors) > whole.n_iter_  # not of the last fit alone
    stopped = MatrixCompletionCV([2, 4], [3.0, 10.0, 30.0], random_state=0).set_callbacks(Stop(after=2)).fit(data)
    assert (stopped.outcome_, stopped.converged_) == ("interrupted", False)
    assert len(stopped.cv_results_["C"]) < len(whole.cv_results_["C"])
    assert np.isfinite(stopped.predict([0], [0])).all()
    assert np.isfinite(stopped.certificate_.gap)


def test_the_usual_C_follows_unit_and_loss():
    def usual(data, loss):
        return usual_C(data.shape, data.values, loss)

    data = make_ratings(80, 60, 2000, rank=2, noise=0.3, random_state=0).data
    ten = data.with_values(10 * data.values)
    size = np.sqrt(80 * 60)
    assert usual(data, Square()) == pytest.approx(0.3 * size)
    assert usual(ten, Square()) == pytest.approx(0.3 * size)
    assert usual(ten, Absolute()) == pytest.approx(10 * usual(data, Absolute()))
    assert usual(ten, Huber(1.0)) == pytest.approx(usual(data, Huber(0.1)))  # both terms are squares
    assert usual(data, Huber(1e6)) == pytest.approx(2 * 0.3 * size)  # ½ e², where the square loss has e²
    assert usual(data.with_values(np.ones(len(data))), Absolute()) > 0
    assert usual(data, Logistic()) == pytest.approx(0.3 * size)


def test_the_spread_is_not_that_of_outliers():
    values = np.random.default_rng(0).standard_normal(1000)
    values[:50] = 1e6
    assert spread(values) == pytest.approx(1.0, rel=0.15)
    assert spread(np.r_[np.zeros(90), np.ones(10)]) > 0
    assert spread(np.full(5, 3.0)) == 1.0
