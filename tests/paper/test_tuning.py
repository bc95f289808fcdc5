"""Weights are chosen by the error at the end of a fit, and by the least error along it."""

from paper.tuning import WORSE, choose

ERRORS = {  # by weight: held-out errors along a fit
    100.0: [0.9, 0.9],
    10.0: [0.9, 0.5],
    1.0: [0.9, 0.4, 0.7],
    0.1: [0.9, 0.6, 0.8],
}


def test_the_two_criteria_choose_different_weights():
    found = choose(lambda weight: ERRORS[weight], tuple(ERRORS), ())
    assert (found["end"], found["early"]) == (10.0, 1.0)
    assert {t["weight"] for t in found["tried"]} == set(ERRORS)


def test_weights_around_both_are_tried_once():
    tried = []

    def errors_of(weight):
        tried.append(weight)
        return ERRORS.get(weight, [0.9, 0.3])

    found = choose(errors_of, tuple(ERRORS), (0.5, 1.0))
    assert sorted(tried) == sorted([*ERRORS, 5.0, 0.5])
    assert (found["end"], found["early"]) == (5.0, 5.0)


def test_weaker_regularisation_is_not_tried_after_two_that_are_worse():
    tried = []

    def errors_of(weight):
        tried.append(weight)
        return [0.5 if weight == 8.0 else 0.5 + 2 * WORSE]

    choose(errors_of, (16.0, 8.0, 4.0, 2.0, 1.0), ())
    assert tried == [16.0, 8.0, 4.0, 2.0]
