"""Flat arrays for the entries of a table: refused where they could be in another order than the entries."""

import numpy as np
import pytest
from scipy import sparse

from rslm import MatrixCompletion, ObservedMatrix
from rslm.data import holdout
from rslm.evaluate import holdout_after, holdout_last, holdout_users

RNG = np.random.default_rng(0)
PAIRS = RNG.permutation(20 * 15)[:200]
USERS, ITEMS = PAIRS // 15, PAIRS % 15
VALUES, TIMES, WEIGHTS = RNG.normal(size=200), RNG.permutation(200).astype(float), RNG.uniform(0.5, 2, 200)
TABLE = ObservedMatrix.from_ratings(USERS, ITEMS, VALUES)


def sorted_table():
    order = np.lexsort((ITEMS, USERS))
    return ObservedMatrix.from_ratings(USERS[order], ITEMS[order], VALUES[order])


def test_who_is_reordered():
    assert TABLE.reordered
    assert ObservedMatrix.from_triplets(USERS, ITEMS, VALUES, weights=WEIGHTS).reordered
    assert not sorted_table().reordered
    csr = sparse.csr_array((VALUES, (USERS, ITEMS)), shape=(20, 15))
    assert not ObservedMatrix.from_any(csr).reordered
    assert not ObservedMatrix.from_any(csr.tocoo()).reordered
    assert not ObservedMatrix.from_any(csr.todense()).reordered
    assert ObservedMatrix.from_any(csr.tocsc()).reordered
    assert ObservedMatrix.from_any(sparse.coo_array((VALUES, (USERS, ITEMS)), shape=(20, 15))).reordered


@pytest.mark.parametrize(
    "made",
    [
        lambda X: X,
        lambda X: holdout(X, 0.3, random_state=0)[0],
        lambda X: holdout_users(X, 0.3, random_state=0)[0],
        lambda X: X.some_rows(np.arange(5)),
        lambda X: X.transposed(),
        lambda X: X.with_values(-X.values),
        lambda X: X.with_columns(np.arange(20)),
    ],
)
def test_flat_arrays_are_refused(made):
    X = made(TABLE)
    flat = np.ones(len(X))
    with pytest.raises(ValueError, match=r"another order.*from_ratings.*with_values.*weights="):
        X.weighted(flat)
    with pytest.raises(ValueError, match="another order"):
        MatrixCompletion(2, 1.0).fit(X, sample_weight=flat)
    with pytest.raises(ValueError, match=r"another order.*from_ratings\(rows, columns, times\)"):
        holdout_last(X, np.arange(len(X)))
    with pytest.raises(ValueError, match="another order"):
        holdout_after(X, np.arange(len(X)), 3)


def test_matrices_are_right():
    past, future = holdout_after(TABLE, ObservedMatrix.from_ratings(USERS, ITEMS, TIMES), 150.0)
    later = TIMES >= 150
    np.testing.assert_array_equal(
        sorted(zip(future.rows_of_entries(), future.index, strict=True)),
        sorted(zip(USERS[later], ITEMS[later], strict=True)),
    )
    assert len(past) == 150
    given = TABLE.weighted(ObservedMatrix.from_ratings(USERS, ITEMS, WEIGHTS)).weights
    np.testing.assert_array_equal(given, ObservedMatrix.from_ratings(USERS, ITEMS, VALUES, weights=WEIGHTS).weights)


def test_numbers_in_the_order_of_the_values_can_be_given():
    own = np.abs(TABLE.values)
    np.testing.assert_array_equal(TABLE.weighted(TABLE.with_values(own)).weights, own)
    np.testing.assert_array_equal(sorted_table().weighted(own).weights, own)
    assert len(holdout_last(sorted_table(), own)[1]) == 20


def test_weights_of_samples_are_not_refused():
    found = MatrixCompletion(2, 1.0, random_state=0).fit(TABLE, sample_weight=np.arange(1.0, 21.0))
    np.testing.assert_array_equal(found.residuals_.weights, 1.0 + TABLE.rows_of_entries())
