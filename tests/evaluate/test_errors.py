"""Errors of models at held-out entries, by positions and by ids, and entries of other files."""

import numpy as np
import pytest

from plain import plain_completion
from rslm import ObservedMatrix
from rslm.data import holdout
from rslm.datasets import make_ratings
from rslm.evaluate import align, errors, mae, rmse, unseen

MADE = make_ratings(60, 45, 900, rank=2, noise=0.3, random_state=0).data
TRAIN, TEST = holdout(MADE, 0.2, 0)
MODEL = plain_completion(3, 20.0, random_state=0).fit(TRAIN)
MISSED = (MODEL.row_factors_ @ MODEL.col_factors_.T)[TEST.rows_of_entries(), TEST.index] - TEST.values


def named(data):
    return ObservedMatrix.from_ratings([f"u{i}" for i in data.rows_of_entries()], -data.index, data.values)


def test_errors():
    assert rmse(MODEL, TEST) == pytest.approx(np.sqrt(np.mean(MISSED**2)), rel=1e-12)  # rounding of products
    assert mae(MODEL, TEST.to_csr()) == pytest.approx(np.mean(np.abs(MISSED)), rel=1e-12)


def test_weights_count():
    weights = np.random.default_rng(0).integers(1, 4, len(TEST))
    again = np.repeat(MISSED, weights)
    assert rmse(MODEL, TEST.weighted(weights)) == pytest.approx(np.sqrt(np.mean(again**2)), rel=1e-12)
    assert mae(MODEL, TEST.weighted(weights)) == pytest.approx(np.mean(np.abs(again)), rel=1e-12)


def test_ids_are_matched():
    """A file of its own has fewer users and items, in an order of its own."""
    model, test = plain_completion(3, 20.0, random_state=0).fit(named(TRAIN)), named(TEST)
    assert test.shape != TRAIN.shape or not np.array_equal(test.row_ids, model.row_ids_)
    wanted = np.sqrt(
        np.mean((model.predict(test.row_ids[test.rows_of_entries()], test.col_ids[test.index]) - test.values) ** 2)
    )
    assert rmse(model, test) == pytest.approx(wanted, rel=1e-12)
    assert rmse(model, align(test, model)) == pytest.approx(wanted, rel=1e-12)


def test_a_matrix_without_ids_is_that_of_the_fit():
    """By position, whatever the ids are; here they are numbers, which are positions of other rows."""
    rows, cols = 3 * TRAIN.rows_of_entries(), 2 * TRAIN.index
    model = plain_completion(3, 20.0, random_state=0).fit(ObservedMatrix.from_ratings(rows, cols, TRAIN.values))
    assert rmse(model, TEST) == pytest.approx(rmse(MODEL, TEST), rel=1e-9)
    with pytest.raises(ValueError, match=r"a matrix of 59 rows without ids was given, but the model has ids for 60"):
        rmse(model, TEST.to_dense()[:59])


def test_align():
    model = plain_completion(1, 1.0, random_state=0).fit(
        ObservedMatrix.from_ratings(list("aabb"), list("xyxy"), [1.0, 2.0, 3.0, 4.0])
    )
    other = ObservedMatrix.from_ratings(list("cbba"), list("xyzx"), [5.0, 6.0, 7.0, 8.0], weights=[1.0, 2.0, 3.0, 4.0])
    found = align(other, model)
    np.testing.assert_array_equal(found.to_dense(), [[8.0, np.nan], [np.nan, 6.0]])
    np.testing.assert_array_equal(found.weights, [4.0, 2.0])
    assert found.row_ids is model.row_ids_
    with pytest.raises(ValueError, match="only one of the data and the model has row ids"):
        align(TEST, model)
    wide = ObservedMatrix.from_any(np.arange(1.0, 61 * 46 + 1).reshape(61, 46))  # of positions that the model has not
    np.testing.assert_array_equal(align(wide, MODEL).to_dense(), wide.to_dense()[:60, :45])


def test_unseen():
    np.testing.assert_array_equal(unseen(MADE, TRAIN).to_dense(), TEST.to_dense())
    assert len(unseen(TRAIN, MADE)) == 0
    nothing = MADE.subset(np.zeros(len(MADE), dtype=bool))
    assert len(unseen(MADE, nothing)) == len(MADE)
    with pytest.raises(ValueError, match=r"data has shape \(60, 45\) and known \(1, 45\)"):
        unseen(MADE, ObservedMatrix.from_any(np.ones((1, 45))))


def test_unseen_matches_ids():
    """Of equal shapes, too: here rows and columns of one are in reverse order."""
    data = ObservedMatrix.from_ratings(list("aab"), list("xyx"), [1.0, 2.0, 3.0])
    other = ObservedMatrix.from_ratings(list("bba"), list("xyy"), [1.0, 1.0, 1.0])
    turned = ObservedMatrix.from_any(np.flip(other.to_dense()))
    turned = ObservedMatrix(
        turned.indptr, turned.index, turned.values, (2, 2), other.row_ids[::-1], other.col_ids[::-1]
    )
    for known in other, turned, ObservedMatrix.from_ratings(list("bac"), list("xyx"), [1.0, 1.0, 1.0]):
        np.testing.assert_array_equal(unseen(data, known).to_dense(), [[1.0, np.nan], [np.nan, np.nan]])


def test_sizes_whose_squares_overflow():
    assert errors.root_mean_square(np.array([3e200, -4e200])) == pytest.approx(np.sqrt(12.5) * 1e200)
    assert errors.root_mean_square(np.zeros(3)) == 0.0


def test_nothing_held_out():
    with pytest.raises(ValueError, match="held_out has no entries"):
        rmse(MODEL, np.full((60, 45), np.nan))
