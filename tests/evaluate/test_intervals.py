"""Factors of split conformal intervals, and how often they cover."""

import math

import numpy as np
import pytest

from rslm import MatrixCompletion, ObservedMatrix
from rslm.evaluate import Calibration, align, coverage_and_width
from rslm.evaluate.intervals import least_scores


@pytest.mark.parametrize("coverage", [0.5, 0.7, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("n", [99, 100, 1000])
def test_the_factor_is_the_smallest_score_that_covers_enough(n, coverage):
    scores = np.random.default_rng(n).exponential(size=n)
    factor = Calibration.of(scores).factor(coverage)
    # ⌈coverage (n + 1)⌉, in whole numbers, since a product such as 0.7·10 is rounded.
    needed = -(-round(100 * coverage) * (n + 1) // 100)
    assert np.count_nonzero(scores <= factor) == needed


def test_new_observations_are_covered_as_often_as_promised():
    rng, n, covered = np.random.default_rng(0), 39, []
    for _ in range(4000):
        scores = rng.standard_t(2, n + 1) ** 2
        covered.append(scores[-1] <= Calibration.of(scores[:-1]).factor(0.9))
    # Exactly 36/40; four standard deviations of 4,000 trials.
    assert abs(np.mean(covered) - 0.9) < 4 * math.sqrt(0.09 / 4000)


@pytest.mark.parametrize("coverage", [0.1, 0.5, 0.8, 0.9, 0.95, 0.99, 0.99999])
def test_too_few_scores_are_an_error_that_says_how_many_are_needed(coverage):
    needed = least_scores(coverage)
    assert math.isfinite(Calibration.of(np.arange(float(needed))).factor(coverage))
    with pytest.raises(ValueError, match=f"needs at least {needed} held-out observations; there are {needed - 1}"):
        Calibration.of(np.arange(float(needed - 1))).factor(coverage)


def test_equal_weights_are_as_no_weights():
    scores = np.random.default_rng(1).exponential(size=200)
    weighted = Calibration.of(scores, np.full(200, 3.0)).weighted_factors(0.9, np.array([3.0]))
    assert weighted[0] == Calibration.of(scores).factor(0.9)


def test_weights_correct_for_another_distribution():
    """Errors are ten times as large for one kind of observation, which is rare among the scores and common later."""
    rng, covered, plain = np.random.default_rng(2), [], []
    for _ in range(300):
        rare = rng.random(400) < 0.1
        scores = np.abs(rng.standard_normal(400)) * np.where(rare, 10.0, 1.0)
        calibration = Calibration.of(scores, np.where(rare, 9.0, 1.0 / 9.0))  # odds of 0.9 and 0.1 among the new ones
        later = rng.random(50) < 0.9
        new = np.abs(rng.standard_normal(50)) * np.where(later, 10.0, 1.0)
        covered += list(new <= calibration.weighted_factors(0.9, np.where(later, 9.0, 1.0 / 9.0)))
        plain += list(new <= calibration.factor(0.9))
    # The weighted quantile covers at least as often as asked for; four standard deviations, 50 share the scores.
    assert np.mean(covered) > 0.9 - 4 * math.sqrt(0.09 / 300)
    assert np.mean(plain) < 0.5


def test_a_weight_too_large_for_the_scores_gives_an_infinite_interval():
    assert np.isinf(Calibration.of(np.ones(20)).weighted_factors(0.9, np.array([100.0]))[0])


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.1, 90, "much", None, True, math.nan])
def test_a_coverage_must_be_between_0_and_1(coverage):
    with pytest.raises(ValueError, match="coverage must be a number between 0 and 1"):
        Calibration.of(np.ones(20)).factor(coverage)


def test_coverage_and_width_of_a_model_count_what_is_inside():
    rng = np.random.default_rng(3)
    X = np.outer(rng.standard_normal(40), rng.standard_normal(30)) + 0.1 * rng.standard_normal((40, 30))
    known = rng.random(X.shape) < 0.6
    model = MatrixCompletion(rank=1, C=100.0, random_state=0).fit(np.where(known, X, np.nan))
    test = ObservedMatrix.from_any(np.where(known, np.nan, X))
    lower, upper = model.predict_interval(test.rows_of_entries(), test.index, 0.8)
    covered, width = coverage_and_width(model, test, 0.8)
    assert covered == np.mean((lower <= test.values) & (test.values <= upper))
    assert width == pytest.approx(np.mean(upper - lower), rel=1e-12)


def test_coverage_and_width_match_entries_by_ids():
    """Fewer rows and columns, in another order, are found by their ids."""
    rng = np.random.default_rng(3)
    X = np.outer(rng.standard_normal(40), rng.standard_normal(30)) * np.arange(1, 41)[:, None]
    rows, cols = np.nonzero(rng.random(X.shape) < 0.6)
    values = X[rows, cols] + 0.1 * rng.standard_normal(len(rows))
    model = MatrixCompletion(rank=1, C=100.0, random_state=0).fit(ObservedMatrix.from_ratings(rows, cols, values))
    some = (rows > 9) & (cols > 5)
    by_id = ObservedMatrix.from_ratings(rows[some], cols[some], values[some])
    whole = align(by_id, model)
    assert by_id.shape != whole.shape
    found = coverage_and_width(model, by_id, 0.8)
    assert found == pytest.approx(coverage_and_width(model, whole, 0.8), rel=1e-12)
    assert found == pytest.approx(coverage_and_width(model, whole.to_dense(), 0.8), rel=1e-12)  # by position
    with pytest.raises(ValueError, match="Unknown row id 99"):
        coverage_and_width(model, ObservedMatrix.from_ratings([99], [1], [1.0]))
    with pytest.raises(ValueError, match=r"a matrix of 30 rows without ids was given, but the model has ids for 40"):
        coverage_and_width(model, by_id.to_dense())


def test_how_many_scores_are_needed_is_not_rounded_up():
    assert [least_scores(coverage) for coverage in (0.9, 0.95, 0.999, 0.99999)] == [9, 19, 999, 99_999]
