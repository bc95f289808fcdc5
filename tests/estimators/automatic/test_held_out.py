"""Which entries are held out, and the ridges that variances give."""

import numpy as np
import pytest

from rslm import ObservedMatrix
from rslm.estimators.automatic.folds import FOLDS, LARGE, folds_of
from rslm.estimators.automatic.variances import STRONGEST, WEAKEST, usual_ridges


def observed(shape=(30, 20), share=0.3, seed=0, values=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape) if values is None else values
    return ObservedMatrix.from_any(np.where(rng.random(shape) < share, X, np.nan))


def places(data):
    return list(zip(data.rows_of_entries().tolist(), np.asarray(data.index).tolist(), strict=True))


@pytest.mark.parametrize("share", [0.06, 0.15, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_every_row_and_column_keeps_an_entry(share, seed):
    data = observed(share=share, seed=seed)
    for fold in folds_of(data, np.random.default_rng(seed)):
        assert sorted(places(fold.train) + places(fold.held)) == places(data)
        for train, whole in (
            (fold.train.row_counts(), data.row_counts()),
            (fold.train.col_counts(), data.col_counts()),
        ):
            assert ((train > 0) == (whole > 0)).all()


def test_folds_of_small_data_are_disjoint_and_cover_most():
    data = observed(share=0.5)
    folds = folds_of(data, np.random.default_rng(0))
    held = [place for fold in folds for place in places(fold.held)]
    assert len(folds) == FOLDS
    assert len(held) == len(set(held)) > 0.9 * len(data)


def test_large_data_have_one():
    data = observed((200, 150), share=0.9)
    assert len(data) > LARGE
    (fold,) = folds_of(data, np.random.default_rng(0))
    assert 0.1 * len(data) < len(fold.held) < 0.25 * len(data)


def test_the_same_by_seed():
    data = observed()
    one, other = (folds_of(data, np.random.default_rng(3)) for _ in range(2))
    assert [places(fold.held) for fold in one] == [places(fold.held) for fold in other]
    assert [places(fold.held) for fold in folds_of(data, np.random.default_rng(4))] != [places(f.held) for f in one]


def test_weights_go_with_their_entries():
    data = observed()
    weighted = data.weighted(data.values + 10.0)
    for fold in folds_of(weighted, np.random.default_rng(0)):
        for part in (fold.train, fold.held):
            np.testing.assert_array_equal(part.weights, part.values + 10.0)


@pytest.mark.parametrize(
    "X", [np.array([[1.0]]), np.array([[1.0, np.nan], [np.nan, 2.0]]), np.ones((1, 6)), np.ones((6, 1))]
)
def test_nothing_can_be_held_out(X):
    """Where every entry is the only one of its row or column."""
    assert folds_of(ObservedMatrix.from_any(X), np.random.default_rng(0)) == []


# ---- ridges --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("of_rows", "of_columns"), [(1.0, 1.0), (0.5, 2.0), (2.0, 0.3)])
def test_ridges_are_those_of_the_variances(of_rows, of_columns):
    """σ²/σ_b² and σ²/σ_c²; from 300 and 200 effects they are known to some tenths."""
    found = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        b, c = of_rows * rng.standard_normal((300, 1)), of_columns * rng.standard_normal(200)
        data = observed((300, 200), 0.1, seed, 7.0 + b + c + rng.standard_normal((300, 200)))
        found.append(usual_ridges(data))
    expected = 1.0 / of_rows**2, 1.0 / of_columns**2
    np.testing.assert_allclose(np.mean(found, axis=0), expected, rtol=0.3)


def test_ridges_depend_neither_on_scale_nor_on_location():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 1)) + 0.5 * rng.standard_normal(30) + rng.standard_normal((40, 30))
    plain = usual_ridges(observed((40, 30), values=X))
    for factor, shift in ((1e-3, 0.0), (1e3, 0.0), (1.0, 1e4), (1e200, 0.0)):
        # A shift of 1e4 costs four digits, twice in a square.
        np.testing.assert_allclose(usual_ridges(observed((40, 30), values=factor * X + shift)), plain, rtol=1e-7)


def test_ridges_of_extreme_data():
    noise = usual_ridges(observed((60, 50), 1.0))
    assert min(noise) > 20
    assert usual_ridges(observed(values=np.full((30, 20), 3.0))) == (1.0, 1.0)
    rows, cols = usual_ridges(observed(values=np.add.outer(np.arange(30.0), np.arange(20.0))))
    assert (rows, cols) == (WEAKEST, WEAKEST)
    one = usual_ridges(ObservedMatrix.from_any(np.array([[2.0, np.nan]])))
    assert all(WEAKEST <= ridge <= STRONGEST for ridge in one)


def test_a_weight_of_two_is_the_entry_twice():
    """Twice as many observations of everything: the same variances, at about the same noise."""
    rng = np.random.default_rng(0)
    data = observed((80, 60), 0.5, values=rng.standard_normal((80, 1)) + rng.standard_normal((80, 60)))
    np.testing.assert_allclose(usual_ridges(data.weighted(np.full((80, 60), 3.0))), usual_ridges(data), rtol=1e-9)
